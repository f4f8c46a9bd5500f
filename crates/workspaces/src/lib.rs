//! The lifecycle of workspaces.
//!
//! ```text
//!  create ─► creating ─► ready ─► stopping ─► stopped ─► resuming ─► ready
//!               │          │                     │
//!               ▼          └──── destroying ◄────┘ ─► (row removed)
//!             failed ─────────────────▲
//! ```
//!
//! **Intent first.** The row is written before a provider is asked, and removed after the
//! sandbox is gone; so whatever a `kill -9` leaves behind has a row, or is an orphan that
//! [reconcile](mod@reconcile) destroys.
//!
//! **One owner.** Every workspace has one task (an [`actor`]) that alone changes its state.
//! Others send it requests and watch. Tool calls do not pass through it: they run side by
//! side on the agent's connection, and only tell it when the agent cannot be reached.
//!
//! **Failures.** A lost agent is found again, a lost sandbox is resumed once around its
//! disk, and what cannot be repaired is `failed` with the reason in the row.

mod activity;
mod actor;
mod admission;
mod alerts;
mod checkout;
mod contact;
mod creation;
mod dialer;
mod disk_watch;
mod error;
mod events;
mod failpoints;
mod forks;
mod handle;
mod host_capacity;
mod key_turns;
mod new_workspace;
mod options;
mod pool;
mod progress;
mod reconcile;
mod resting;
mod service;
mod services;
mod sessions;
mod snapshots;
mod streams;
mod sweeper;
mod tools;
mod usage;
mod volumes;

pub use alerts::{Alert, AlertKind, Severity};
pub use checkout::CodeCheckout;
pub use creation::CreatedWorkspace;
pub use error::{CreateError, LifecycleError, ToolError};
pub use events::{Event, Events, Heard, Published, Subject, Subscription};
pub use failpoints::{Failpoints, Place};
pub use forks::{ForkError, Forked};
pub use handle::{Handle, ProviderView};
pub use host_capacity::HostCapacity;
pub use new_workspace::{HostedServer, NewWorkspace, RequestedLimits};
pub use options::Options;
pub use pool::{Miss, Misses, PoolSpec, PoolView, PoolsView};
pub use service::{Service, StartError};
pub use services::{HostService, HostServices};
pub use snapshots::{SnapshotError, TakenSnapshot};
pub use streams::{InUse, WriteStreamError};
pub use tools::{StreamedCommand, ToolCall};
pub use usage::{ProviderTotals, RunningUsage, Sample, Totals, WorkspaceUsage};
pub use volumes::volumes_of;
