//! Disks on a real host: loop devices, ext4, overlays. Needs root and e2fsprogs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod busy;
mod hidden;
mod hostile;
mod interrupted;
mod mounting;
mod points;
mod removing;
mod size;
mod snapshots;
mod support;
mod tracer;
