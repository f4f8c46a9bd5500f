//! The pools, as clients see them.

use emergent_types::StartupMillis;
use emergent_workspaces::{Miss, PoolView, PoolsView};
use serde::Serialize;
use utoipa::ToSchema;

/// The pools of sandboxes that are made ahead of time.
#[derive(Serialize, ToSchema)]
pub(crate) struct WarmPool {
    /// How many sandboxes the default pool should have.
    size: u32,
    /// How many of all pools can be had now.
    ready: u32,
    /// How many of those stand still until somebody has them.
    resting: u32,
    /// How many are being made.
    creating: u32,
    /// Creates that were served by one, since the server started.
    hits: u64,
    /// Creates that were not, by reason.
    misses: PoolMisses,
    /// How long it took to hand one over; null before the first.
    #[schema(required = true)]
    claim_ms: Option<StartupMillis>,
    /// Each pool.
    pools: Vec<Pool>,
}

/// Creates that no pool served, by reason.
#[derive(Serialize, ToSchema)]
struct PoolMisses {
    /// There is no pool, or the request did not want one of its sandboxes.
    disabled: u64,
    /// No sandbox was ready.
    empty: u64,
    /// Another provider was wanted, or one that makes no sandboxes ahead of time.
    provider: u64,
    /// Another image was wanted.
    image: u64,
    /// Other limits or another network were wanted.
    shape: u64,
}

/// One pool.
#[derive(Serialize, ToSchema)]
#[schema(as = WarmPoolMembers)]
struct Pool {
    /// Its name.
    name: String,
    /// How many sandboxes it should have.
    size: u32,
    /// How many can be had now.
    ready: u32,
    /// How many of those stand still until somebody has them.
    resting: u32,
    /// How many are being made.
    creating: u32,
    /// Why it could not be filled.
    #[schema(required = true)]
    trouble: Option<String>,
}

impl From<PoolsView> for WarmPool {
    fn from(view: PoolsView) -> Self {
        let because = |miss| view.misses.because(miss);
        Self {
            size: view.pools.first().map_or(0, |pool| pool.size),
            ready: view.pools.iter().map(|pool| pool.ready).sum(),
            resting: view.pools.iter().map(|pool| pool.resting).sum(),
            creating: view.pools.iter().map(|pool| pool.creating).sum(),
            hits: view.hits,
            misses: PoolMisses {
                disabled: because(Miss::Disabled),
                empty: because(Miss::Empty),
                provider: because(Miss::Provider),
                image: because(Miss::Image),
                shape: because(Miss::Shape),
            },
            claim_ms: view.claim_ms,
            pools: view.pools.into_iter().map(Pool::from).collect(),
        }
    }
}

impl From<PoolView> for Pool {
    fn from(view: PoolView) -> Self {
        let PoolView { name, size, ready, resting, creating, trouble } = view;
        Self { name, size, ready, resting, creating, trouble }
    }
}
