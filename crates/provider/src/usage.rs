//! What a sandbox uses of its host.

use std::time::Duration;

/// What a sandbox uses now, as its host counts it: nothing here comes from inside. Each is `None` where
/// the host cannot tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its processes since it was last started.
    pub cpu_time: Option<Duration>,
    /// Memory in use, without what the kernel keeps only because nobody else needs the room.
    pub memory_bytes: Option<u64>,
    /// Processes.
    pub processes: Option<u64>,
    /// What its disk takes up on the host.
    pub disk_bytes: Option<u64>,
    /// It is not on this host, so it says nothing about what this host has left.
    pub on_another_host: bool,
}
