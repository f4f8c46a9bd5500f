//! The local provider on this host, for real: namespaces, control groups, loop devices. Needs
//! root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod account;
mod concurrency;
mod disk_faults;
mod disk_use;
mod faults;
mod isolation;
mod lifecycle;
mod limits;
mod shared_limits;
mod snapshots;
mod support;
mod without;
