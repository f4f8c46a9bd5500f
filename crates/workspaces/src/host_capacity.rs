//! What this host has.

/// What this host has for all workspaces together. Each is `None` where it is not known, and then nothing
/// is ever too much.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostCapacity {
    /// Processors.
    pub cpus: Option<f64>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// The disk on which workspaces are kept.
    pub disk_bytes: Option<u64>,
}
