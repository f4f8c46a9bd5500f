//! The process inside every sandbox.
//!
//! ```text
//!  PID 1  emergent-agent init ── owns the listening socket, reaps orphans, restarts ──┐
//!                                                                                     ▼
//!  control plane ═══ byte stream ═══► emergent-agent serve ── one task per connection
//!    (Unix socket, or `emergent-agent relay`      │
//!     on the far end of a docker exec)            ├─ supervisor ── bash -c … ── children
//!                                                 ├─ supervisor ── bash -c … ── children
//!                                                 └─ a few threads for blocking file work
//! ```
//!
//! Init is a single thread without a runtime: it must never fail, and a `waitpid(-1)` inside
//! the agent would steal the children of its own commands. The agent is one runtime thread
//! and a handful of blocking ones; each command lives under a supervisor of its own
//! ([`exec`]), so that nothing it starts can escape being found.
//!
//! The library runs the same agent inside another process, over any byte streams, for fakes
//! and tests: see [`Agent`].

mod accounts;
mod agent;
mod body;
pub mod copy;
pub mod edit;
mod environment;
mod error;
mod exec;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod git;
mod hello;
pub mod init;
mod lease;
pub mod measure;
mod part;
pub mod probe;
mod processes;
mod quiesce;
mod readiness;
pub mod relay;
mod search;
mod serve;
mod service;
mod stdio;
mod terminal;
mod threads;
mod tree;
mod tunnel;
mod watch;
mod workspace;

pub use agent::{Agent, Config, Limits, Scope};
pub use serve::{Ended, serve};

/// The exit code by which the agent tells init that the sandbox's time is over.
pub const EXIT_LEASE_OVER: u8 = 83;
