//! Sandboxes that are made ahead of time.

pub(crate) mod get;
pub(crate) mod put;
pub(crate) mod view;
