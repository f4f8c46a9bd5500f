//! Processes of sandboxes, as the host sees them. A process is known by its id *and* the time
//! it started (and the boot it started in), so that a recycled id is never taken for it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process, told apart from every other that ever had or will have its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: i32,
    /// Clock ticks between boot and its start.
    start_ticks: u64,
    boot: String,
}

impl ProcessIdentity {
    /// The process that has this id now.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let stat = ProcessStat::read(pid)?;
        Ok(Self { pid, start_ticks: stat.start_ticks, boot: boot_id()? })
    }

    /// A handle to the process; `None` when it has ended.
    pub(crate) fn open(&self) -> Option<ProcessHandle> {
        let ProcessHandle { pidfd } = ProcessHandle::of_pid(self.pid)?;
        // Looked at after the handle exists: if this is the right process now, the handle can
        // not be anyone else's.
        let stat = ProcessStat::read(self.pid).ok()?;
        let same = stat.start_ticks == self.start_ticks && boot_id().is_ok_and(|boot| boot == self.boot);
        (same && !stat.is_zombie).then_some(ProcessHandle { pidfd })
    }

    /// Its network namespace, held open.
    pub(crate) fn network_namespace(&self) -> io::Result<fs::File> {
        let namespace = fs::File::open(format!("/proc/{}/ns/net", self.pid))?;
        // Looked at after the file is open: if this is the process now, it was its own.
        if self.is_alive() { Ok(namespace) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Its root, held open for looking below it.
    pub(crate) fn root(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{}/root", self.pid), flags, Mode::empty())?;
        // Looked at after the folder is open: if this is the process now, it was its own.
        if self.is_alive() { Ok(root) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// How many bytes are used of the file system that it has as its root, which is at most so large. Only a
    /// number is read, and nothing below that root is looked for.
    pub(crate) fn used_of_root(&self, at_most: u64) -> Option<u64> {
        let seen = rustix::fs::fstatvfs(self.root().ok()?).ok()?;
        let used = seen.f_blocks.saturating_sub(seen.f_bfree).saturating_mul(seen.f_frsize);
        (used <= at_most).then_some(used)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.open().is_some()
    }
}

/// A process that cannot be confused with another while this is held.
pub(crate) struct ProcessHandle {
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// A handle to a process found by id; `None` when it has ended. What is known about the
    /// id must be looked at again once the handle is there.
    pub(crate) fn of_pid(pid: i32) -> Option<Self> {
        // A number out of a damaged record may be anything.
        let pid = if pid > 0 { Pid::from_raw(pid)? } else { return None };
        Some(Self { pidfd: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    /// Kills it; one that has ended already is success.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it has ended; `false` when the time is up first.
    pub(crate) fn wait(&self, deadline: Instant) -> io::Result<bool> {
        wait_readable(&self.pidfd, deadline)
    }
}

/// Waits until there is something to read (for a process handle: until it has ended); `false`
/// when the time is up first.
pub(crate) fn wait_readable(fd: impl AsFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) if left > Duration::ZERO => {}
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The fields of `/proc/<pid>/stat` that are needed here.
struct ProcessStat {
    is_zombie: bool,
    start_ticks: u64,
}

impl ProcessStat {
    fn read(pid: i32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is not understood"))
        })
    }

    /// The second field is the program's name in parentheses and may hold anything, so fields
    /// are counted from the last parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?;
        // Field 22 of the whole line; `state` was the third.
        let start_ticks = fields.nth(18)?.parse().ok()?;
        Some(Self { is_zombie: matches!(state, "Z" | "X"), start_ticks })
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_program_name_moves_no_field() {
        let line = "77 (a) Z 1 (b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        let stat = ProcessStat::parse(line).unwrap();
        assert_eq!(stat.start_ticks, 4242);
        assert!(!stat.is_zombie);
        assert!(ProcessStat::parse("77 (x").is_none());
        assert!(ProcessStat::parse("").is_none());
    }

    #[test]
    fn another_process_with_the_same_id_is_not_taken_for_it() {
        let me = ProcessIdentity::of(std::process::id() as i32).unwrap();
        assert!(me.is_alive());
        assert!(!ProcessIdentity { start_ticks: me.start_ticks + 1, ..me.clone() }.is_alive());
        assert!(!ProcessIdentity { boot: "another".to_owned(), ..me.clone() }.is_alive());
        assert!(!ProcessIdentity { pid: -1, ..me }.is_alive());
    }

    #[test]
    fn killing_waits_for_the_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id() as i32).unwrap();
        let handle = identity.open().unwrap();
        assert!(!handle.wait(Instant::now() + Duration::from_millis(20)).unwrap());
        handle.kill().unwrap();
        assert!(handle.wait(Instant::now() + Duration::from_secs(5)).unwrap());
        // Not yet reaped, and dead all the same.
        assert!(!identity.is_alive());
        child.wait().unwrap();
        handle.kill().unwrap();
    }
}
