//! What every endpoint can reach.

use std::net::SocketAddr;
use std::sync::Arc;

use emergent_store::Store;
use emergent_workspaces::Handle;

use crate::AllowedHost;
use crate::auth::TokenDirectory;
use crate::hosts::HostList;

/// What every endpoint can reach. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiState {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    workspaces: Option<Handle>,
    tokens: TokenDirectory,
    hosts: HostList,
}

impl ApiState {
    /// `workspaces` is `None` where they are switched off.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        workspaces: Option<Handle>,
        listening: SocketAddr,
        allowed_hosts: Vec<AllowedHost>,
    ) -> Self {
        let tokens = TokenDirectory::new(Arc::clone(&store));
        let hosts = HostList::new(listening, allowed_hosts);
        Self { inner: Arc::new(Inner { store, workspaces, tokens, hosts }) }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.inner.store.as_ref()
    }

    pub(crate) fn workspaces(&self) -> Option<&Handle> {
        self.inner.workspaces.as_ref()
    }

    pub(crate) fn tokens(&self) -> &TokenDirectory {
        &self.inner.tokens
    }

    pub(crate) fn hosts(&self) -> &HostList {
        &self.inner.hosts
    }
}
