//! Sandboxes that are made before anybody asks for them.
//!
//! ```text
//!  keeper ─► member: creating ─► ready ─► offered ── a create that it fits ─► somebody's workspace
//!     ▲            │                │                                             │
//!     └── makes another ◄── destroyed, where it dies, is too many or fits no more ┘
//! ```
//!
//! A member is a workspace like any other, with a row and an owner task of its own, but it is nobody's: it
//! takes no place under the limit, is in no list, and no tool reaches it. Its owner task hands it over, so
//! it is handed over once, and never comes back: nobody finds a trace of anybody else.

pub(crate) mod fit;
pub(crate) mod keeper;
mod stock;
mod tally;

pub(crate) use stock::Stock;
pub use tally::{Miss, Misses};

use std::time::Duration;

use emergent_store::{StoreError, WorkspaceRow};
use emergent_types::StartupMillis;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify};

use crate::NewWorkspace;
use crate::events;
use crate::service::Context;
use tally::Tally;

/// How long a member outlives a control plane that does not come back.
pub(crate) const MEMBER_TTL: Duration = Duration::from_secs(60 * 60);

/// A pool that an administrator wants.
#[derive(Debug, Clone)]
pub struct PoolSpec {
    /// What it is called.
    pub name: String,
    /// How many members it has.
    pub size: u32,
    /// What they are.
    pub shape: NewWorkspace,
}

impl PoolSpec {
    /// The pool whose size can be changed while the server runs.
    pub const DEFAULT: &str = "default";

    /// So many of what a request gets that names nothing.
    pub fn of_defaults(size: u32) -> Self {
        Self { name: Self::DEFAULT.to_owned(), size, shape: NewWorkspace::default() }
    }
}

/// What is known of one pool.
#[derive(Debug, Clone)]
pub struct PoolView {
    /// Which.
    pub name: String,
    /// How many members it should have.
    pub size: u32,
    /// How many can be had now.
    pub ready: u32,
    /// How many of them stand still until then.
    pub resting: u32,
    /// How many are being made.
    pub creating: u32,
    /// Why it could not be filled, if so.
    pub trouble: Option<String>,
}

/// What is known of all pools together.
#[derive(Debug, Clone)]
pub struct PoolsView {
    /// Each of them.
    pub pools: Vec<PoolView>,
    /// Creates that were served by a member.
    pub hits: u64,
    /// Creates that were not, by reason.
    pub misses: Misses,
    /// How long it took to hand one over; `None` before the first.
    pub claim_ms: Option<StartupMillis>,
}

/// All pools.
pub(crate) struct Pools {
    stocks: Vec<Stock>,
    pub(crate) tally: Tally,
    /// There is something to do for the keeper.
    wake: Notify,
    /// Held while members are made and removed, so that none is made behind the back of who removes them all.
    tending: Mutex<()>,
}

/// The size of the default pool as it was set while a server ran.
#[derive(Debug, Serialize, Deserialize)]
struct SizeSetting {
    size: u32,
    /// What the configuration said then: whoever changes that later means it.
    instead_of: u32,
}

const SIZE_SETTING: &str = "warm_pool_size";

impl Pools {
    pub(crate) fn new(specs: &[PoolSpec]) -> Self {
        Self {
            stocks: specs.iter().cloned().map(Stock::new).collect(),
            tally: Tally::default(),
            wake: Notify::new(),
            tending: Mutex::default(),
        }
    }

    pub(crate) fn stocks(&self) -> &[Stock] {
        &self.stocks
    }

    fn stock(&self, name: &str) -> Option<&Stock> {
        self.stocks.iter().find(|stock| stock.spec.name == name)
    }

    /// The pool that it waits in, if it does.
    pub(crate) fn stock_of(&self, row: &WorkspaceRow) -> Option<&Stock> {
        self.stock(row.warm_pool.as_deref()?)
    }

    /// Something has changed that the keeper looks after.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Goes on with the size that was set before the server was started again.
    pub(crate) async fn load_size(&self, context: &Context) -> Result<(), StoreError> {
        let Some(stock) = self.stock(PoolSpec::DEFAULT) else { return Ok(()) };
        let setting = context.store.get_setting(SIZE_SETTING).await?;
        let setting = setting.and_then(|value| serde_json::from_value::<SizeSetting>(value).ok());
        if let Some(setting) = setting.filter(|setting| setting.instead_of == stock.spec.size) {
            stock.set_size(setting.size);
        }
        Ok(())
    }

    /// Changes the size of the default pool, for this server and the next. `false` where there is none.
    pub(crate) async fn set_size(&self, context: &Context, size: u32) -> Result<bool, StoreError> {
        let Some(stock) = self.stock(PoolSpec::DEFAULT) else { return Ok(false) };
        let setting = SizeSetting { size, instead_of: stock.spec.size };
        let value = serde_json::to_value(&setting).unwrap_or_default();
        context.store.put_setting(SIZE_SETTING, &value).await?;
        stock.set_size(size);
        tracing::info!(size, "the warm pool has {size} members from now on");
        context.events.publish(events::of_pool(PoolSpec::DEFAULT, size));
        self.wake();
        Ok(true)
    }
}
