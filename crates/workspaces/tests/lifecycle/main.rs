//! The lifecycle over the fake provider and a real SQLite file: happy paths, races, faults
//! and restarts.

mod crash;
mod creating;
mod expiry;
mod faults;
mod setup;
mod stopping;
