//! The agent's end of a pseudo-terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use emergent_protocol::v1;
use rustix::fs::{Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;

use crate::error::CallError;
use crate::readiness::watched;

/// What is read at once; the kernel's buffer is not bigger.
pub(super) const READ_BYTES: usize = 16 << 10;

/// The greatest side of a terminal. Programs allocate by it.
const MAX_SIDE: u32 = 4096;

/// How big a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    columns: u16,
    rows: u16,
}

impl Size {
    const DEFAULT: Self = Self { columns: 80, rows: 24 };

    /// A size, or the usual one where none is named.
    pub(super) fn from_message(size: Option<v1::TerminalSize>) -> Result<Self, CallError> {
        let Some(size) = size else { return Ok(Self::DEFAULT) };
        let side = |asked: u32, usual: u16| match asked {
            0 => Ok(usual),
            1..=MAX_SIDE => Ok(u16::try_from(asked).unwrap_or(usual)),
            _ => Err(CallError::invalid(format!("a terminal has at most {MAX_SIDE} columns and rows"))),
        };
        Ok(Self {
            columns: side(size.columns, Self::DEFAULT.columns)?,
            rows: side(size.rows, Self::DEFAULT.rows)?,
        })
    }

    fn to_kernel(self) -> Winsize {
        Winsize { ws_row: self.rows, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// The agent's end. Dropping it hangs up.
pub(super) struct Master {
    descriptor: AsyncFd<Arc<OwnedFd>>,
}

/// Makes a terminal; the other end is the command's.
pub(super) fn open(size: Size, owner: Option<u32>) -> Result<(Master, OwnedFd), CallError> {
    make(size, owner).map_err(|errno| match errno {
        // So it says that there are as many as there may be; no disk is full.
        Errno::NOSPC => CallError::TooManyInKernel { what: "terminals" },
        errno => CallError::File { path: Path::new("/dev/ptmx").to_owned(), errno },
    })
}

fn make(size: Size, owner: Option<u32>) -> Result<(Master, OwnedFd), Errno> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&master)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(ptsname(&master, Vec::new())?, flags, Mode::empty())?;
    tcsetwinsize(&slave, size.to_kernel())?;
    if let Some(uid) = owner {
        // Programs open their terminal by its name. Where it cannot be given away they
        // still have it open.
        let _ = rustix::fs::fchown(&slave, Some(Uid::from_raw(uid)), None);
    }
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((Master { descriptor: watched(Arc::new(master))? }, slave))
}

impl Master {
    /// What is shown next; `None` when nobody has the terminal open any more.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> Option<Bytes> {
        loop {
            let mut ready = self.descriptor.readable().await.ok()?;
            let read = ready.try_io(|master| Ok(rustix::io::read(master.get_ref(), &mut *buffer)?));
            match read {
                Ok(Ok(0)) => return None,
                Ok(Ok(length)) => return Some(Bytes::copy_from_slice(buffer.get(..length)?)),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // EIO: the last one has closed it.
                Ok(Err(_)) => return None,
                Err(_would_block) => {}
            }
        }
    }

    /// Types something; waits while nobody reads it.
    pub(super) async fn write(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let mut ready = self.descriptor.writable().await?;
            match ready.try_io(|master| Ok(rustix::io::write(master.get_ref(), data)?)) {
                Ok(Ok(written)) => data = data.get(written..).unwrap_or_default(),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// The kernel tells the program in the foreground.
    pub(super) fn resize(&self, size: Size) {
        let _ = tcsetwinsize(self.descriptor.get_ref(), size.to_kernel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded() {
        let size = |columns, rows| Size::from_message(Some(v1::TerminalSize { columns, rows })).ok();
        assert_eq!(Size::from_message(None).unwrap(), Size::DEFAULT);
        assert_eq!(size(0, 0), Some(Size::DEFAULT));
        assert_eq!(size(132, 0), Some(Size { columns: 132, rows: 24 }));
        assert_eq!(size(4097, 1), None);
        assert_eq!(size(1, u32::MAX), None);
    }
}
