//! The socket the agent listens on. The host makes it, in the state folder, and the agent
//! inherits it: no path that a guest controls is ever connected to.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, unlinkat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::layout::AGENT_SOCKET;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Makes the listening socket. Goes to the folder first and names the socket alone: a
/// socket's path may be 107 bytes long, a data folder's longer.
pub(crate) fn make(state_folder: &Path) -> io::Result<OwnedFd> {
    rustix::process::chdir(state_folder)?;
    match unlinkat(CWD, AGENT_SOCKET, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let before = rustix::process::umask(Mode::from_raw_mode(0o077));
    let bound = bind(&socket, &SocketAddrUnix::new(AGENT_SOCKET)?);
    rustix::process::umask(before);
    bound?;
    listen(&socket, BACKLOG)?;
    rustix::process::chdir("/")?;
    Ok(socket)
}
