//! The running service: start and shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use emergent_store::{StoreError, WorkspaceRow};
use emergent_types::{StopMode, WorkspaceStatus};
use futures::future::join_all;
use tokio::sync::watch;

use crate::registry::{Context, Registry, Server};
use crate::{Handle, Options};

/// The service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What is registered could not be read.
    #[error("cannot read the registered MCP servers: {0}")]
    Store(#[from] StoreError),
}

/// Hosted MCP servers, as long as this lives.
pub struct Service {
    handle: Handle,
}

impl Service {
    /// Begins to look after every registered server. All start at once, and nobody waits for them.
    pub async fn start(
        options: Options,
        workspaces: emergent_workspaces::Handle,
    ) -> Result<Self, StartError> {
        let registered = workspaces.store().list_mcp_servers().await?;
        let context = Context {
            options,
            workspaces,
            registry: Registry::default(),
            closing: AtomicBool::new(false),
            changes: watch::Sender::new(0),
        };
        let handle = Handle { context: Arc::new(context) };
        for row in registered {
            if let Ok(workspace) = handle.context.workspaces.get(row.id).await
                && is_kept(&workspace)
            {
                tracing::info!(server = row.name, workspace = %row.id, "MCP server {} is started", row.name);
                handle.adopt(row);
            }
        }
        Ok(Self { handle })
    }

    /// What the API works with.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Tells every program to end, makes those that do not, and stops the sandboxes unless they are to go on.
    /// Must come before `workspaces` shuts down.
    pub async fn shutdown(self) {
        let context = &self.handle.context;
        context.closing.store(true, Ordering::Release);
        join_all(context.registry.all().iter().map(|server| self.let_go(server))).await;
    }

    async fn let_go(&self, server: &Arc<Server>) {
        let context = &self.handle.context;
        self.handle.close(server, context.options.shutdown_grace).await;
        if context.options.keep_running {
            return;
        }
        let stopped = context.workspaces.stop(server.id, StopMode::Disk).await;
        if let Err(error) = stopped {
            let name = &server.name;
            tracing::warn!(server = name, %error, "the sandbox of MCP server {name} goes on: {error}");
        }
    }

    /// Ends like a control plane that is killed, as far as that is possible within one process.
    pub async fn abandon(self) {
        let context = &self.handle.context;
        context.closing.store(true, Ordering::Release);
        for server in context.registry.all() {
            server.abandon();
            context.registry.remove(server.id);
        }
    }
}

/// Whether a sandbox stays. A deletion or a registration that was cut off is taken back with it.
fn is_kept(workspace: &WorkspaceRow) -> bool {
    match workspace.status {
        WorkspaceStatus::Destroying => false,
        WorkspaceStatus::Creating => workspace.acknowledged,
        _ => true,
    }
}
