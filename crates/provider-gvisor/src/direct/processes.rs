//! The processes of a sandbox on the host: found by their arguments, which runsc gives them and nothing
//! inside can change.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long killed processes may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Ends every process that belongs to a sandbox: its own, its gofer, and commands that work on it. When this
/// returns they have let go of everything, whether or not their parents have asked after them.
pub(super) fn end_all(root_flag: &str, container: &str) -> io::Result<()> {
    let deadline = Instant::now() + END_LIMIT;
    loop {
        let mut ending = Vec::new();
        for pid in of(root_flag, container)? {
            ending.extend(kill(pid, || belongs(pid, root_flag, container))?);
        }
        if ending.is_empty() {
            return Ok(());
        }
        for process in ending {
            wait_for(&process, deadline)?;
        }
    }
}

/// The numbers of a sandbox's processes.
fn of(root_flag: &str, container: &str) -> io::Result<Vec<i32>> {
    let numbers = fs::read_dir("/proc")?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    Ok(numbers.filter(|pid| belongs(*pid, root_flag, container)).collect())
}

/// Whether a process works on a sandbox. One that has ended and nobody has asked after has no arguments
/// any more.
pub(super) fn belongs(pid: i32, root_flag: &str, container: &str) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| is_about(&arguments, root_flag, container))
}

fn is_about(arguments: &[u8], root_flag: &str, container: &str) -> bool {
    let words = || arguments.split(|byte| *byte == 0);
    // The gofer is told the folder of the bundle and not the name.
    let names = |word: &[u8]| {
        word == container.as_bytes()
            || container
                .get(container.len().saturating_sub(36)..)
                .is_some_and(|id| word.ends_with(format!("/{id}").as_bytes()))
    };
    words().any(|word| word == root_flag.as_bytes()) && words().any(names)
}

/// Kills a process, unless the number has come to mean another one; returns what can be waited for.
pub(super) fn kill(pid: i32, is_it: impl FnOnce() -> bool) -> io::Result<Option<OwnedFd>> {
    let Some(number) = Pid::from_raw(pid) else { return Ok(None) };
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(None),
        process => process?,
    };
    // Now that the number is sure to mean the same process.
    if !is_it() {
        return Ok(None);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) => Ok(Some(process)),
        Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the last thread of a process has ended.
fn wait_for(process: &OwnedFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(0), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "its processes do not end")),
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_arguments() {
        let (root, id) = ("--root=/data/direct/runsc", "0198c0de-0000-7000-8000-00000000abcd");
        let name = format!("emergent-1234abcd-{id}");
        let check = |words: &[&str], expect| {
            assert_eq!(is_about(words.join("\0").as_bytes(), root, &name), expect, "{words:?}");
        };
        check(&["runsc-sandbox", root, "boot", &name], true);
        check(&["runsc-gofer", root, "gofer", "--bundle", &format!("/data/direct/sandboxes/{id}")], true);
        check(&["runsc-sandbox", "--root=/other", "boot", &name], false);
        check(&["runsc-sandbox", root, "boot", "emergent-1234abcd-other"], false);
        check(&["cat", "/proc/1/cmdline"], false);
        check(&[""], false);
    }
}
