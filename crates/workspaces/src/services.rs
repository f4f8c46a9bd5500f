//! Services of the control plane that programs in sandboxes can reach.
//!
//! ```text
//!   program in the sandbox ─► /run/emergent/services/<name> ─► agent ─► its stream ─► HostService
//! ```
//!
//! Nothing listens on the host. A connection comes over the agent's own stream, so which
//! workspace speaks is known from the stream and from nothing that is said. What comes through
//! it was written by whoever controls the sandbox.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::{AgentError, ServiceRequest, TunnelStream};
use emergent_store::WorkspaceRow;
use emergent_types::WorkspaceId;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::service::Presence;

/// Connections of one workspace that are served at once. More wait.
const MAX_CONNECTIONS: usize = 16;

/// How long to wait before services are offered again; doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// A service of the control plane that programs in sandboxes can reach.
#[async_trait]
pub trait HostService: Send + Sync {
    /// Its name in the sandbox: lower-case letters, digits and `-`.
    fn name(&self) -> &'static str;

    /// The TCP port of the sandbox's loopback at which it is reached as well, by programs that know no
    /// socket in the file system.
    fn port(&self) -> Option<u16> {
        None
    }

    /// Serves one connection of a workspace, as its row is now. Dropped when the workspace
    /// stops being ready, or its code checked out. Must bound what it reads and how long it waits: the peer is not
    /// trusted.
    async fn serve(&self, workspace: WorkspaceRow, stream: TunnelStream);
}

/// The services that every workspace is offered.
#[derive(Clone, Default)]
pub struct HostServices(Vec<Arc<dyn HostService>>);

impl HostServices {
    /// These services.
    pub fn new(services: Vec<Arc<dyn HostService>>) -> Self {
        Self(services)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn HostService>> {
        self.0.iter().find(|service| service.name() == name).cloned()
    }

    fn ports(&self) -> Vec<(&'static str, u16)> {
        self.0.iter().filter_map(|service| Some((service.name(), service.port()?))).collect()
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|service| service.name()).collect()
    }
}

impl fmt::Debug for HostServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Services on offer to one workspace, for as long as this lives.
pub(crate) struct Offering(Option<JoinHandle<()>>);

impl Drop for Offering {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Who is offered services.
pub(crate) struct Guest {
    pub(crate) id: WorkspaceId,
    pub(crate) presence: Arc<Presence>,
    pub(crate) row: watch::Receiver<WorkspaceRow>,
}

impl Guest {
    /// Offers the services, again and again when the agent's stream is lost.
    pub(crate) fn offer(self, services: &HostServices) -> Offering {
        if services.is_empty() {
            return Offering(None);
        }
        let services = services.clone();
        Offering(Some(tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                self.presence.contact.wanted().await;
                let ended = tokio::select! {
                    ended = self.offer_once(&services) => ended,
                    () = self.presence.contact.let_go() => {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                };
                match ended {
                    Ok(()) => pause = FIRST_PAUSE,
                    Err(AgentError::Unsupported { .. }) => return,
                    Err(error) => {
                        tracing::debug!(workspace = %self.id, %error, "services of workspace {}: {error}", self.id);
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(LAST_PAUSE);
            }
        })))
    }

    /// Offers the services until the stream ends.
    async fn offer_once(&self, services: &HostServices) -> Result<(), AgentError> {
        // Between a loss and its repair there is nobody to offer them to.
        let Some(client) = self.presence.agent() else { return Ok(()) };
        let mut offer = client.offer_services_at(&services.names(), &services.ports()).await?;
        self.presence.contact.note_offered();
        let _offered = self.presence.contact.offering();
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            // Never closed, so there is always a place to wait for.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let Some(request) = offer.next().await? else { return Ok(()) };
            let Some(service) = services.find(&request.service) else { continue };
            let served = serve(service, self.current_row(), request);
            connections.spawn(async move {
                served.await;
                drop(place);
            });
        }
    }

    fn current_row(&self) -> WorkspaceRow {
        let mut row = self.row.borrow().clone();
        row.expires_at = self.presence.activity.expires_at().or(row.expires_at);
        row
    }
}

async fn serve(service: Arc<dyn HostService>, workspace: WorkspaceRow, request: ServiceRequest) {
    let id = workspace.id;
    match request.accept().await {
        Ok(stream) => service.serve(workspace, stream).await,
        Err(error) => {
            let name = service.name();
            tracing::debug!(workspace = %id, %error, "a connection to {name} was gone: {error}");
        }
    }
}
