//! Standard input and output as the first connection.
//!
//! A container engine that starts init can hold on to its standard input and output. Then the
//! key comes as the first line of input, where neither `inspect` nor a process list shows it, and
//! what follows is a connection to the agent: the first one, which therefore costs no process.
//! Further ones come through the socket.

#![expect(unsafe_code, reason = "standard input and output are put out of everybody's way")]

use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use emergent_protocol::KEY_LENGTH;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::key::{self, Key};
use super::{InitError, agent_process};

/// Both ends of the first connection.
#[derive(Debug)]
pub(super) struct FirstConnection {
    input: OwnedFd,
    output: OwnedFd,
}

impl FirstConnection {
    /// The connection from its two descriptors, which this process was started with.
    pub(super) fn adopt((input, output): (RawFd, RawFd)) -> io::Result<Self> {
        Ok(Self { input: agent_process::adopt(input)?, output: agent_process::adopt(output)? })
    }

    /// What it is read from and written to.
    pub(super) fn into_parts(self) -> (OwnedFd, OwnedFd) {
        (self.input, self.output)
    }
}

/// Reads the key, and takes standard input and output away from whatever is started later.
pub(super) fn take() -> Result<(Key, FirstConnection), InitError> {
    let key = read_key()?;
    let failed = InitError::kernel::<io::Error>("standard input and output");
    match set_aside() {
        Ok(connection) => Ok((key, connection)),
        Err(error) => Err(failed(error)),
    }
}

/// Exactly the digits and the end of their line: what comes behind is the agent's.
fn read_key() -> Result<Key, InitError> {
    let mut line = [0; 2 * KEY_LENGTH + 1];
    // SAFETY: descriptor 0 is open for as long as this process has not closed it, and is not
    // closed by the file's end.
    let mut input = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(0) });
    input.read_exact(&mut line).map_err(InitError::kernel("key"))?;
    match line.split_last() {
        Some((b'\n', digits)) => key::from_hex(digits).ok_or(InitError::Key),
        _ => Err(InitError::Key),
    }
}

fn set_aside() -> io::Result<FirstConnection> {
    let input = fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(io::stdout(), 3)?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    for descriptor in [0, 1] {
        // SAFETY: both are open, and nothing has been written to standard output.
        if unsafe { libc::dup2(null.as_raw_fd(), descriptor) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(FirstConnection { input, output })
}

/// The first connection until an agent has been started with it. An agent that comes after one
/// that died finds it gone, as its peer does.
#[derive(Default)]
pub(super) struct Untaken(Mutex<Option<FirstConnection>>);

impl Untaken {
    pub(super) fn new(connection: Option<FirstConnection>) -> Self {
        Self(Mutex::new(connection))
    }

    /// Hands the connection to the next process that is started, by number.
    pub(super) fn hand_over(&self) -> io::Result<Option<FirstConnection>> {
        let taken = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(connection) = &taken {
            for end in [&connection.input, &connection.output] {
                fcntl_setfd(end, FdFlags::empty())?;
            }
        }
        Ok(taken)
    }
}

impl FirstConnection {
    /// As it is named on the agent's command line.
    pub(super) fn as_argument(&self) -> String {
        format!("{},{}", self.input.as_raw_fd(), self.output.as_raw_fd())
    }
}
