//! What somebody should look at: one file an endpoint.

pub(crate) mod list;
