//! The store's tests: one suite for every database, and what only one of them can be asked.

#![expect(clippy::unwrap_used, reason = "in a test, a panic with a line is the report")]

mod postgres_outage;
mod postgres_schema;
mod postgres_suite;
mod postgres_tls;
mod sqlite_kill;
mod sqlite_open;
mod sqlite_suite;
mod suite;
