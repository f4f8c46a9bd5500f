//! A real server with a real Docker and gVisor behind it, over HTTP.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

mod checkout;
mod churn;
#[path = "../churn.rs"]
mod churning;
mod direct;
mod fallback;
mod faults;
mod host;
mod idle;
mod kill_matrix;
#[path = "../killing.rs"]
mod killing;
mod mcp;
mod pool;
mod remote;
mod restarts;
mod resting;
mod secrets;
#[path = "../../crates/provider-gvisor/tests/direct/unpacked.rs"]
mod unpacked;
mod workspaces;
