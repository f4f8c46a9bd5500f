//! What happens here, while it happens: one file an endpoint.

pub(crate) mod follow;
