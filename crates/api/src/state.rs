//! What every endpoint can reach.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use emergent_store::Store;
use emergent_workspaces::Handle;
use time::OffsetDateTime;
use tokio::sync::Mutex;

use crate::Options;
use crate::audit::Audit;
use crate::auth::TokenDirectory;
use crate::health::RecentHealth;
use crate::hosts::HostList;
use crate::limits::{InProgress, Rates};
use crate::mcp::Fronts;
use crate::streaming::Sockets;

/// What every endpoint can reach. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiState {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    workspaces: Option<Handle>,
    mcp_servers: Option<emergent_mcp_hosting::Handle>,
    checkout: Option<emergent_checkout::Handle>,
    mcp_fronts: Fronts,
    tokens: TokenDirectory,
    revocations: Mutex<()>,
    audit: Audit,
    hosts: HostList,
    sockets: Sockets,
    rates: Rates,
    in_progress: InProgress,
    health: RecentHealth,
    started_at: OffsetDateTime,
    max_command_time: Duration,
}

impl ApiState {
    /// `workspaces`, `mcp_servers` and `checkout` are `None` where they are switched off; `listening` is the real address.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        workspaces: Option<Handle>,
        mcp_servers: Option<emergent_mcp_hosting::Handle>,
        checkout: Option<emergent_checkout::Handle>,
        listening: SocketAddr,
        options: &Options,
    ) -> Self {
        let audit = Audit::default();
        Self {
            inner: Arc::new(Inner {
                tokens: TokenDirectory::new(Arc::clone(&store)),
                store,
                workspaces,
                mcp_servers,
                checkout,
                mcp_fronts: Fronts::new(audit.clone()),
                revocations: Mutex::new(()),
                audit,
                hosts: HostList::new(listening, options.allowed_hosts.clone()),
                sockets: Sockets::new(),
                rates: Rates::new(options.rate_limit),
                in_progress: InProgress::default(),
                health: RecentHealth::default(),
                started_at: emergent_store::now(),
                max_command_time: options.max_command_time,
            }),
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.inner.store.as_ref()
    }

    pub(crate) fn workspaces(&self) -> Option<&Handle> {
        self.inner.workspaces.as_ref()
    }

    pub(crate) fn mcp_servers(&self) -> Option<&emergent_mcp_hosting::Handle> {
        self.inner.mcp_servers.as_ref()
    }

    pub(crate) fn checkout(&self) -> Option<&emergent_checkout::Handle> {
        self.inner.checkout.as_ref()
    }

    pub(crate) fn mcp_fronts(&self) -> &Fronts {
        &self.inner.mcp_fronts
    }

    pub(crate) fn tokens(&self) -> &TokenDirectory {
        &self.inner.tokens
    }

    /// Whose turn it is to revoke a token.
    pub(crate) fn revocations(&self) -> &Mutex<()> {
        &self.inner.revocations
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    pub(crate) fn hosts(&self) -> &HostList {
        &self.inner.hosts
    }

    pub(crate) fn sockets(&self) -> &Sockets {
        &self.inner.sockets
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    pub(crate) fn in_progress(&self) -> &InProgress {
        &self.inner.in_progress
    }

    /// How the database was a moment ago.
    pub(crate) fn health(&self) -> &RecentHealth {
        &self.inner.health
    }

    /// The longest that a command in the foreground may run.
    pub(crate) fn max_command_time(&self) -> Duration {
        self.inner.max_command_time
    }

    /// When the server started.
    pub(crate) fn started_at(&self) -> OffsetDateTime {
        self.inner.started_at
    }
}
