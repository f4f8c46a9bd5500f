//! Sandboxes that are made ahead of time.

use std::collections::BTreeMap;

use emergent_types::StartupMillis;
use serde::{Deserialize, Serialize};

use crate::client::NO_QUERY;
use crate::{Client, ClientError};

const WARM_POOL: &str = "/api/v1/warm-pool";

/// The pools of sandboxes that are made ahead of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmPool {
    /// How many sandboxes the default pool should have.
    pub size: u32,
    /// How many can be had now.
    pub ready: u32,
    /// How many of those stand still until somebody has them.
    #[serde(default)]
    pub resting: u32,
    /// How many are being made.
    pub creating: u32,
    /// Creates that were served by one.
    pub hits: u64,
    /// Creates that were not, by reason.
    pub misses: BTreeMap<String, u64>,
    /// How long it took to hand one over.
    pub claim_ms: Option<StartupMillis>,
    /// Each pool.
    pub pools: Vec<Pool>,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How many sandboxes it should have.
    pub size: u32,
    /// How many can be had now.
    pub ready: u32,
    /// How many of those stand still until somebody has them.
    #[serde(default)]
    pub resting: u32,
    /// How many are being made.
    pub creating: u32,
    /// Why it could not be filled.
    pub trouble: Option<String>,
}

impl Client {
    /// The pools.
    pub async fn warm_pool(&self) -> Result<WarmPool, ClientError> {
        self.get(WARM_POOL, &NO_QUERY).await
    }

    /// Changes the size of the default pool.
    pub async fn resize_warm_pool(&self, size: u32) -> Result<WarmPool, ClientError> {
        self.put(WARM_POOL, &serde_json::json!({"size": size})).await
    }
}
