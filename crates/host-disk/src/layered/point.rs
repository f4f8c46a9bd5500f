//! Mount points into which nothing can be written while nothing is mounted on them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Once;

use rustix::fs::{
    AtFlags, IFlags, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, fchmod, fstat, ioctl_getflags,
    ioctl_setflags, mkdirat, openat, openat2, statx,
};
use rustix::io::Errno;

/// Makes a mount point, or makes one that is there what it has to be. Nothing may be mounted
/// on it.
pub(super) fn prepare(folder: impl AsFd, name: &str) -> io::Result<()> {
    match mkdirat(&folder, name, Mode::empty()) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let point = open_unmounted(&folder, name)?;
    let flags = match ioctl_getflags(&point) {
        Ok(flags) if flags.contains(IFlags::IMMUTABLE) => return Ok(()),
        Ok(flags) => Ok(flags),
        Err(error) => Err(error),
    };
    fchmod(&point, Mode::empty())?;
    if let Err(error) = flags.and_then(|flags| ioctl_setflags(&point, flags | IFlags::IMMUTABLE)) {
        say_once(&error);
    }
    Ok(())
}

/// Lets a mount point be emptied and removed; `None` where there is none. A folder of that name which
/// is no mount point is left alone.
pub(super) fn release(folder: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let point = match open_unmounted(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        point => point?,
    };
    // Nobody else makes folders to which nobody has any right.
    if fstat(&point)?.st_mode & 0o777 != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a mount point of a disk"));
    }
    match ioctl_getflags(&point) {
        Ok(flags) if flags.contains(IFlags::IMMUTABLE) => {
            ioctl_setflags(&point, flags - IFlags::IMMUTABLE)?;
        }
        // Never made immutable, or the file system cannot.
        _ => {}
    }
    Ok(Some(point))
}

/// The root of what is mounted on a mount point; `None` where nothing is.
pub(super) fn mounted(folder: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let seen = statx(&opened, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    Ok(seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT).then_some(opened))
}

fn open_unmounted(folder: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    Ok(openat2(folder, Path::new(name), flags, Mode::empty(), within)?)
}

/// Once per process: a host's file system does not learn it.
fn say_once(error: &Errno) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            "mount points of disks cannot be made immutable here ({error}): while a disk is not mounted, \
             root can write to the host's own disk through them"
        );
    });
}
