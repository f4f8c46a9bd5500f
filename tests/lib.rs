//! What the suites share.

pub mod packages;
