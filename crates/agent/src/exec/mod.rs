//! Running commands.
//!
//! ```text
//!  agent ─clone──► supervisor ─clone──► command ──fork──► child ──setsid──► grandchild
//!    ▲                 │ subreaper: orphans below come back to it,               │
//!    │                 │ so everything the command started stays below it  ◄─────┘
//!    └── reports ──────┘
//!        Started(pid) │ Failed(step, errno)      exec worked, or why not
//!        Exited(status)                          the command itself is over
//!        end of stream                           so is everything it started
//! ```
//!
//! A command that ends by itself is answered at once; what it left running goes on under its
//! supervisor. A command whose time is up, or whose caller is gone, is ended with everything
//! below the supervisor: SIGTERM, five seconds, SIGKILL.
//!
//! Everything before the first clone is in [`plan`] and [`image`] (may fail, may allocate),
//! everything after it in [`supervisor`] and [`child`] (may not allocate: the memory is the agent's).

mod being_written;
mod call;
mod capture;
mod child;
mod collect;
mod command;
mod image;
mod journal;
mod launch;
mod oom;
mod output_budget;
mod output_folder;
mod plan;
mod pump;
mod raw;
mod report;
mod supervisor;
mod victim;

pub(crate) use call::exec;
pub(crate) use collect::{Collected, collect};
pub(crate) use command::{Command, EndOnDrop, Status, Tree};
pub(crate) use launch::Launcher;
pub(crate) use oom::{KILLS, OomCounter};
pub(crate) use plan::{Extras, Plan, find_shell};
pub(crate) use pump::{End, Sink, drain, pump};
pub(crate) use report::Step;
pub(crate) use supervisor::SUPERVISOR;
pub(crate) use victim::Before;

use std::time::Duration;

/// How long a process has to comply with SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
