//! What was tried, and why it did not serve.

use std::time::Duration;

use emergent_types::{ProviderKind, SnapshotId};
use time::OffsetDateTime;

/// A provider that was considered and did not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which.
    pub provider: ProviderKind,
    /// When it was considered.
    pub started_at: OffsetDateTime,
    /// How long that took.
    pub duration: Duration,
    /// Why not.
    pub reason: String,
}

/// No provider served: every one that was considered, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoProvider {
    /// In the order of consideration.
    pub attempts: Vec<Attempt>,
    /// The same request may succeed later without anything being changed.
    pub retryable: bool,
    /// The request itself asks for what cannot be had here.
    pub refusal: Option<Refusal>,
}

/// What a request asks for that cannot be had here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What no provider here can enforce. Only where every provider of this installation refused
    /// for such a reason: with one that could and does not work at the moment, the same request may
    /// succeed later.
    NotEnforceable {
        /// The field of the request.
        field: &'static str,
        /// Why not.
        reason: String,
    },
    /// A copy of a disk that is not there.
    SnapshotNotFound {
        /// Which.
        id: SnapshotId,
    },
    /// An image that a provider which works looked for and did not get. Whatever the others said:
    /// whoever asked can do something about this.
    ImageNotFound {
        /// As the request names it.
        reference: String,
        /// Why not.
        reason: String,
    },
}

impl std::fmt::Display for NoProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no provider could create the workspace")?;
        for attempt in &self.attempts {
            write!(f, "; {}: {}", attempt.provider, attempt.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for NoProvider {}
