//! What an administrator decides about the API. Total and validated.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::AllowedHost;

/// How the API is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen. Port 0 is any free port.
    pub listen: SocketAddr,
    /// Names under which clients may address this server, beside its own address and
    /// loopback.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Requests per second of every token that is not an administrator's, with bursts of twice
    /// as many; `None` is without a limit.
    pub rate_limit: Option<NonZeroU32>,
    /// How long the audit log is kept.
    pub audit_retention: Duration,
    /// How long a client may take nothing of its answer before it is given up.
    pub stall_limit: Duration,
    /// The longest that a command in the foreground may run.
    pub max_command_time: Duration,
}

impl Options {
    /// What holds where an administrator decides nothing.
    pub fn new(listen: SocketAddr) -> Self {
        const DAYS: u64 = 24 * 60 * 60;
        Self {
            listen,
            allowed_hosts: Vec::new(),
            rate_limit: NonZeroU32::new(1000),
            audit_retention: Duration::from_secs(90 * DAYS),
            stall_limit: Duration::from_secs(60),
            max_command_time: Duration::from_secs(600),
        }
    }
}
