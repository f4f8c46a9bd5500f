//! How much an archive may ask for, and the account of what it has used.

use std::time::{Duration, Instant};

use super::error::{Limit, UnpackError};

/// What an archive may be at most. Whatever goes beyond it ends the unpacking and leaves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Headers in the archive, with folders that are made because nothing names them.
    pub entries: u64,
    /// Bytes of the archive: headers, contents and padding.
    pub bytes: u64,
    /// Bytes of one path, and of what a link leads to.
    pub path_bytes: usize,
    /// Folders below each other. Each one on the way holds a file descriptor.
    pub depth: usize,
    /// Bytes of one extended header (long names, attributes), which is held in memory.
    pub header_bytes: u64,
    /// From the beginning to the last byte.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 2_000_000,
            bytes: 32 << 30,
            path_bytes: 4095,
            depth: 128,
            header_bytes: 1 << 20,
            time: Duration::from_secs(900),
        }
    }
}

/// What has been used so far.
pub(super) struct Budget {
    pub(super) limits: Limits,
    entries: u64,
    bytes: u64,
    deadline: Instant,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            entries: 0,
            bytes: 0,
            // A time that no clock can reach is as good as a year.
            deadline: Instant::now() + limits.time.min(Duration::from_secs(365 * 86400)),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn entry(&mut self) -> Result<(), UnpackError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(UnpackError::TooMuch { what: Limit::Entries, allowed: self.limits.entries });
        }
        self.in_time()
    }

    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), UnpackError> {
        self.bytes += bytes as u64;
        self.affordable(0)?;
        self.in_time()
    }

    /// Whether this many bytes more could still come, before anything is made for them.
    pub(super) fn affordable(&self, bytes: u64) -> Result<(), UnpackError> {
        if self.bytes.checked_add(bytes).is_none_or(|all| all > self.limits.bytes) {
            return Err(UnpackError::TooMuch { what: Limit::Bytes, allowed: self.limits.bytes });
        }
        Ok(())
    }

    fn in_time(&self) -> Result<(), UnpackError> {
        if Instant::now() > self.deadline {
            return Err(UnpackError::TimedOut { after: self.limits.time });
        }
        Ok(())
    }
}
