//! The local provider on this host, for real: namespaces, control groups, loop devices. Needs
//! root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod concurrency;
mod faults;
mod isolation;
mod lifecycle;
mod limits;
mod support;
