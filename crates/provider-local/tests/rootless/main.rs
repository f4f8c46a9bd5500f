//! The local provider for whoever is not root: user namespaces, a folder as disk, and honesty
//! about what cannot be enforced that way.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod account;
mod conformance;
#[path = "../local/disk_use.rs"]
mod disk_use;
#[path = "../local/faults.rs"]
mod faults;
mod honesty;
mod host_mounts;
mod secrets;
#[path = "../local/shared_limits.rs"]
mod shared_limits;
#[path = "../local/support/mod.rs"]
mod support;
