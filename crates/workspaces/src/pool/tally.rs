//! How often a pool could serve, and why it could not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emergent_provider::StartupTimes;
use emergent_types::StartupMillis;

/// Why a create was not served by a member of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Miss {
    /// There is no pool, or the request does not want a member of one.
    Disabled,
    /// No member was ready.
    Empty,
    /// The members are another provider's than the one that a cold create would have used, or that one can have
    /// none.
    Provider,
    /// They have started from another image.
    Image,
    /// They have other limits that cannot be adjusted, another network, or do not uphold what the request names.
    Shape,
}

impl Miss {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Disabled, Self::Empty, Self::Provider, Self::Image, Self::Shape];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Empty => "empty",
            Self::Provider => "provider",
            Self::Image => "image",
            Self::Shape => "shape",
        }
    }
}

/// How often a pool did not serve, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Misses([u64; Miss::ALL.len()]);

impl Misses {
    /// How often for this reason.
    pub fn because(&self, miss: Miss) -> u64 {
        self.0[miss as usize]
    }
}

#[derive(Default)]
pub(crate) struct Tally {
    hits: AtomicU64,
    misses: [AtomicU64; Miss::ALL.len()],
    claims: StartupTimes,
}

impl Tally {
    pub(crate) fn hit(&self, took: Duration) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.claims.add(took);
    }

    pub(crate) fn miss(&self, miss: Miss) {
        self.misses[miss as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn misses(&self) -> Misses {
        Misses(std::array::from_fn(|number| self.misses[number].load(Ordering::Relaxed)))
    }

    pub(crate) fn claim_ms(&self) -> Option<StartupMillis> {
        self.claims.summary()
    }
}
