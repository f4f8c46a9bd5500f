//! The socket the agent is reached by.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::Path;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::process::umask;

use super::{InitError, Listen};

/// Connections that wait while the agent is being started again.
const BACKLOG: i32 = 128;

/// A listening socket.
pub(super) fn open(listen: &Listen) -> Result<OwnedFd, InitError> {
    match listen {
        Listen::Path(path) => make(path).map_err(|source| InitError::Listen { path: path.clone(), source }),
        Listen::Descriptor(descriptor) => super::agent_process::adopt(*descriptor)
            .map_err(|source| InitError::Descriptor { descriptor: *descriptor, source }),
    }
}

/// Only root of the sandbox can reach it: the file is 0600, and a folder made for it is 0700.
/// Its name appears when it can be connected to, and not before.
fn make(path: &Path) -> io::Result<OwnedFd> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // One left by an init of this sandbox's last run is replaced, anything else is not ours.
    if fs::symlink_metadata(path).is_ok_and(|file| !file.file_type().is_socket()) {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    let unfinished = path.with_added_extension("new");
    let _ = fs::remove_file(&unfinished);
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // There must be no moment at which others could connect.
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = bind(&listener, &SocketAddrUnix::new(&unfinished)?);
    umask(before);
    bound?;
    rustix::net::listen(&listener, BACKLOG)?;
    fs::rename(&unfinished, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run/agent.sock");
        drop(make(&path).unwrap());
        let _listener = make(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let precious = root.path().join("precious");
        fs::write(&precious, "content").unwrap();
        assert!(make(&precious).is_err());
        assert_eq!(fs::read(&precious).unwrap(), b"content");
    }
}
