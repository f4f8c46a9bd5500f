//! Waiting for signals instead of being interrupted by them.

#![expect(unsafe_code, reason = "signal sets have no safe form")]

use std::io;
use std::time::Duration;

/// The signals init waits for. They are blocked, so that none is missed between two waits.
pub(super) struct Signals {
    set: libc::sigset_t,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Children have ended or were stopped, perhaps several.
    Child,
    /// Everything is to be ended.
    Terminate,
    /// As long as asked for has passed.
    TimeUp,
}

impl Signals {
    /// Blocks them from now on.
    pub(super) fn block() -> io::Result<Self> {
        // SAFETY: the set is initialised before it is used.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT] {
                libc::sigaddset(&raw mut set, signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
                0 => Ok(Self { set }),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Waits for one of them, at most this long.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Woken {
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        loop {
            // SAFETY: a valid set, no place for details, and a limit that is null or valid.
            match unsafe { libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), limit) } {
                libc::SIGCHLD => return Woken::Child,
                libc::SIGTERM | libc::SIGINT => return Woken::Terminate,
                _ if io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) => return Woken::TimeUp,
                // Interrupted, by a debugger for instance.
                _ => {}
            }
        }
    }
}
