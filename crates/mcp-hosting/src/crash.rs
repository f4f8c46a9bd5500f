use std::fmt;

use emergent_agent_client::Exit;
use time::OffsetDateTime;

/// How a program ended that nobody had told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// When.
    pub at: OffsetDateTime,
    /// What happened, for people.
    pub reason: String,
    /// Its exit code; `None` where it never ran, or where nobody could tell.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<u32>,
    /// The last lines it wrote to stderr.
    pub stderr: Vec<String>,
}

/// What is known of the end of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obituary {
    /// It ended.
    Exited(Exit),
    /// It was not started, or is not usable, or is lost.
    Failed(String),
}

impl Obituary {
    /// Whether it ended with code 0.
    pub(crate) fn is_clean(&self) -> bool {
        matches!(self, Self::Exited(exit) if exit.code == 0 && exit.signal.is_none())
    }

    pub(crate) fn into_crash(self, stderr: Vec<String>) -> Crash {
        let reason = self.to_string();
        let exit = match self {
            Self::Exited(exit) => Some(exit),
            Self::Failed(_) => None,
        };
        Crash {
            at: emergent_store::now(),
            reason,
            exit_code: exit.map(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            stderr,
        }
    }
}

impl fmt::Display for Obituary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason) => f.write_str(reason),
            Self::Exited(exit) => write!(f, "the program ended with {}", status(exit)),
        }
    }
}

/// Such as `exit code 1` or `signal 9`.
pub(crate) fn status(exit: &Exit) -> String {
    let memory = if exit.oom_killed { " (out of memory)" } else { "" };
    match exit.signal {
        Some(signal) => format!("signal {signal}{memory}"),
        None => format!("exit code {}{memory}", exit.code),
    }
}
