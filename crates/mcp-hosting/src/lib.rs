//! Hosted MCP servers: registered, supervised, and bridged to whoever may use them.
//!
//! ```text
//!   api ─► Handle ──┬─ register, update, delete, restart ─► one supervisor task a server
//!                   │                                        │ starts, restarts, backs off, asks how it is
//!                   │                                        ▼
//!                   ├─ call, bridge ──► Bridge ──streams── program ── in a sandbox of `workspaces`
//!                   ├─ dedicated ─────► a Bridge and a program for one client alone
//!                   └─ logs ──────────► the last lines of stderr
//! ```
//!
//! The happy path: a registration is written down with the row of its sandbox, in one transaction; the
//! sandbox is made like any workspace, but is nobody's and never expires. Its supervisor starts the program
//! over the agent's stream, lets a [`Bridge`](emergent_mcp_bridge::Bridge) shake hands with it, and hands the
//! bridge to whoever calls. A program that speaks HTTP itself has a bridge too: [`listening`] reaches its port
//! over the agent's tunnel, which is the only way there, and makes streams of it.
//!
//! The failures: a program that ends is started again, as its restart policy says and as
//! [`supervision`] decides; its bridge stays, so that clients notice no more than the calls that were open.
//! One that does not answer is marked and left alone. A start of the control plane starts all of them at
//! once; none waits for another.

mod attempt;
mod calls;
mod connector;
mod crash;
mod dedicated;
mod error;
mod handle;
mod listening;
mod logs;
mod options;
mod process;
mod registration;
mod registry;
mod sandbox;
mod service;
mod supervision;
mod supervisor;
mod update;
mod view;

pub use connector::Way;
pub use crash::Crash;
pub use dedicated::Dedicated;
pub use emergent_provider::VolumeMount;
pub use error::{CallFailure, HostingError};
pub use handle::{Handle, Registered};
pub use logs::{Follower, LogLine, LogPage, LogStream};
pub use options::Options;
pub use registration::{LimitsRequest, Problem, Problems, Registration, VolumeRequest};
pub use service::{Service, StartError};
pub use update::Update;
pub use view::{BridgeState, ServerView};
