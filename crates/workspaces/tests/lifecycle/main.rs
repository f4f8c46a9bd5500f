//! The lifecycle over the fake provider and a real SQLite file: happy paths, races, faults
//! and restarts.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod crash;
mod creating;
mod disk;
mod expiry;
mod faults;
mod setup;
mod stopping;
