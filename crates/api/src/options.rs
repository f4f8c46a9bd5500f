//! What an administrator decides about the API. Total and validated.

use std::net::SocketAddr;

use crate::AllowedHost;

/// How the API is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen. Port 0 is any free port.
    pub listen: SocketAddr,
    /// Names under which clients may address this server, beside its own address and
    /// loopback.
    pub allowed_hosts: Vec<AllowedHost>,
}
