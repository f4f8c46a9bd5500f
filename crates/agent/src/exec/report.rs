//! What a supervisor tells the agent, in records small enough for a pipe to carry whole.

use std::fmt;

use rustix::io::Errno;

/// How far starting a command came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Step {
    /// Making a process.
    Fork = 1,
    /// A session of its own, and its three streams.
    Detach = 2,
    /// Becoming another account.
    SwitchUser = 3,
    /// Changing to the working folder.
    EnterFolder = 4,
    /// Becoming the program.
    Execute = 5,
}

impl Step {
    fn from_number(number: i32) -> Option<Self> {
        [Self::Fork, Self::Detach, Self::SwitchUser, Self::EnterFolder, Self::Execute]
            .into_iter()
            .find(|step| *step as i32 == number)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fork => "cannot start a process",
            Self::Detach => "cannot set up the process",
            Self::SwitchUser => "cannot become this user",
            Self::EnterFolder => "cannot change to this folder",
            Self::Execute => "cannot be executed",
        })
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The program runs in this process.
    Started { pid: i32 },
    /// It does not run.
    Failed { step: Step, errno: Errno },
    /// The program has ended, with what `wait` said. The largest process of those that have
    /// ended so far had this much memory; 0 where that cannot be told.
    Exited { status: i32, peak_kib: i32 },
    /// Something that the program left behind was ended by SIGKILL.
    Killed,
}

/// Bytes of a record; far below what a pipe writes at once or not at all.
pub(super) const REPORT_BYTES: usize = 12;

impl Report {
    /// Called in a forked process: allocates nothing.
    pub(super) fn to_bytes(self) -> [u8; REPORT_BYTES] {
        let (kind, first, second) = match self {
            Self::Started { pid } => (1, pid, 0),
            Self::Failed { step, errno } => (2, step as i32, errno.raw_os_error()),
            Self::Exited { status, peak_kib } => (3, status, peak_kib),
            Self::Killed => (4, 0, 0),
        };
        let mut bytes = [0; REPORT_BYTES];
        let (kind_bytes, rest) = bytes.split_at_mut(4);
        let (first_bytes, second_bytes) = rest.split_at_mut(4);
        kind_bytes.copy_from_slice(&i32::to_ne_bytes(kind));
        first_bytes.copy_from_slice(&i32::to_ne_bytes(first));
        second_bytes.copy_from_slice(&i32::to_ne_bytes(second));
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let number = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        match number(0) {
            1 => Some(Self::Started { pid: number(4) }),
            2 => Some(Self::Failed {
                step: Step::from_number(number(4))?,
                errno: Errno::from_raw_os_error(number(8)),
            }),
            3 => Some(Self::Exited { status: number(4), peak_kib: number(8) }),
            4 => Some(Self::Killed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_pipe() {
        let exited = Report::Exited { status: 0x8b, peak_kib: 4711 };
        let mut reports = vec![Report::Started { pid: 77 }, exited, Report::Killed];
        for step in [Step::Fork, Step::Detach, Step::SwitchUser, Step::EnterFolder, Step::Execute] {
            reports.push(Report::Failed { step, errno: Errno::NOENT });
        }
        for report in reports {
            assert_eq!(Report::from_bytes(report.to_bytes()), Some(report));
        }
        assert_eq!(Report::from_bytes([0; REPORT_BYTES]), None);
    }
}
