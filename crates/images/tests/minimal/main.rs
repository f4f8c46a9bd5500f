//! Images of made-up hosts: what comes along and what stays behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod folders;
mod hosts;
mod packages;
mod streams;
