//! Bringing the loopback interface up.

#![expect(unsafe_code, reason = "interface flags are set by an ioctl")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

/// `ip link set lo up`.
pub(super) fn bring_up() -> io::Result<()> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all-zero bytes are a valid request; only its name and flags are used.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    let ask = |call: libc::Ioctl, request: &mut libc::ifreq| {
        // SAFETY: both calls read and write an `ifreq` and nothing else.
        match unsafe { libc::ioctl(any.as_raw_fd(), call, std::ptr::from_mut(request)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    ask(libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: the call before has filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let up = libc::IFF_UP as libc::c_short;
    if flags & up != 0 {
        return Ok(());
    }
    request.ifr_ifru.ifru_flags = flags | up;
    ask(libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}
