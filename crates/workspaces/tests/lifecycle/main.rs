//! The lifecycle over the fake provider and a real SQLite file: happy paths, races, faults
//! and restarts.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod checkout;
mod crash;
mod creating;
mod disk;
mod events;
mod expiry;
mod faults;
mod idle;
mod kill_matrix;
mod load;
mod model;
mod pool;
mod pool_unable;
mod resting;
mod selection;
mod setup;
mod snapshots;
mod stopping;
mod usage;
