//! A provider over the `docker` program, for tests: as much as the interface asks for, and
//! nothing that only a product needs.
//!
//! ```text
//!  create ─► one `docker run`: volumes and container ─► relay answers ─► Running
//!  stop ───► container removed, volumes kept ─────────────────────────► Stopped
//!  resume ─► `docker run` around the volumes ─► relay answers ─────────► Running
//!  destroy ► container, then volumes removed
//! ```
//!
//! Each of these is done to its end even when its caller goes away, because a daemon cannot be
//! told to forget a half-heard request; calls for one workspace wait for each other. So what a
//! cancelled create leaves is a whole sandbox, which the next destroy removes.

mod containers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_provider::{
    Health, ObservedSandbox, Operation, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider,
};
use emergent_types::{
    Capabilities, DiskEnforcement, Enforcement, InstallationId, IsolationLevel, LimitEnforcement,
    NetworkMode, Persistence, ProviderKind, StartupMillis, WorkspaceId,
};

use crate::daemon::DockerDaemon;
use crate::docker::DockerError;
use containers::{Containers, Found};

const KIND: ProviderKind = ProviderKind::Gvisor;

/// Sandboxes under runsc.
pub(crate) struct RunscProvider {
    containers: Arc<Containers>,
    turns: Mutex<HashMap<WorkspaceId, Arc<tokio::sync::Mutex<()>>>>,
    startup_ms: Mutex<Vec<u64>>,
}

impl RunscProvider {
    /// A provider over a daemon that has the root image. All capabilities are dropped, and
    /// those named are given back.
    pub(crate) fn new(daemon: &DockerDaemon, capabilities: &'static [&'static str]) -> Self {
        Self {
            containers: Arc::new(Containers::new(daemon, InstallationId::generate(), capabilities)),
            turns: Mutex::default(),
            startup_ms: Mutex::default(),
        }
    }

    /// Does the work to its end, after all earlier work for the same workspace.
    async fn in_turn<T, F>(
        &self,
        operation: Operation,
        id: WorkspaceId,
        work: impl FnOnce(Arc<Containers>) -> F,
    ) -> Result<T, ProviderError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ProviderError>> + Send + 'static,
    {
        let turn = self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone();
        let work = work(Arc::clone(&self.containers));
        let task = tokio::spawn(async move {
            let _turn = turn.lock().await;
            work.await
        });
        task.await.unwrap_or_else(|panic| Err(step_error(operation, id, "task")(panic)))
    }

    fn report(&self, id: WorkspaceId) -> Sandbox {
        Sandbox {
            provider_id: self.containers.name(id),
            isolation: IsolationLevel::Gvisor,
            network: NetworkMode::Isolated,
            persistence: Persistence::Home,
            disk_enforcement: DiskEnforcement::Monitored,
            warnings: vec!["the disk limit is not enforced: a Docker volume has no quota".to_owned()],
        }
    }
}

#[async_trait]
impl WorkspaceProvider for RunscProvider {
    fn kind(&self) -> ProviderKind {
        KIND
    }

    async fn capabilities(&self) -> Capabilities {
        let mut sorted = self.startup_ms.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sorted.sort_unstable();
        let at =
            |percent: usize| sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)));
        Capabilities {
            isolation: IsolationLevel::Gvisor,
            persistence: Some(Persistence::Home),
            snapshots: false,
            warm_pool: false,
            networks: vec![NetworkMode::Isolated],
            base_image: false,
            limits: LimitEnforcement {
                cpu: Enforcement::Enforced,
                memory: Enforcement::Enforced,
                pids: Enforcement::Enforced,
                disk: DiskEnforcement::Monitored,
            },
            platform_needs: ["linux", "root", "docker"].map(str::to_owned).to_vec(),
            startup_ms: at(50).zip(at(95)).map(|(p50, p95)| StartupMillis { p50: *p50, p95: *p95 }),
            free: None,
        }
    }

    async fn health(&self) -> Health {
        match self.containers.runtimes().await {
            Ok(runtimes) if runtimes.contains("\"runsc\"") => Health::Healthy,
            Ok(_) => Health::Unhealthy { reason: "the Docker daemon does not know runsc".to_owned() },
            Err(error) => Health::Unhealthy { reason: error.to_string() },
        }
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        enforceable(spec)?;
        let clock = Instant::now();
        let (id, wanted) = (spec.id, spec.clone());
        self.in_turn(Operation::Create, id, |containers| async move {
            let failed = |step| step_error(Operation::Create, id, step);
            match containers.look(id).await.map_err(failed("look"))? {
                Found::Running => return Ok(()),
                // Its container has ended; its files are not ours to throw away.
                Found::Stopped => return containers.launch(Operation::Create, &wanted).await,
                Found::Partial => containers.remove(id).await.map_err(failed("remove the half-made one"))?,
                Found::Nothing => {}
            }
            let launched = containers.launch(Operation::Create, &wanted).await;
            if launched.is_err() {
                containers.remove(id).await.map_err(failed("remove what failed"))?;
            }
            launched
        })
        .await?;
        let elapsed = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.startup_ms.lock().unwrap_or_else(PoisonError::into_inner).push(elapsed);
        Ok(self.report(id))
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Destroy, id, |containers| async move {
            containers.remove(id).await.map_err(step_error(Operation::Destroy, id, "remove"))
        })
        .await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Stop, id, |containers| async move {
            let failed = |step| step_error(Operation::Stop, id, step);
            match containers.look(id).await.map_err(failed("look"))? {
                Found::Running | Found::Stopped => containers.end(id).await.map_err(failed("end")),
                Found::Partial | Found::Nothing => Err(ProviderError::NotFound { provider: KIND, id }),
            }
        })
        .await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        enforceable(spec)?;
        let (id, wanted) = (spec.id, spec.clone());
        self.in_turn(Operation::Resume, id, |containers| async move {
            match containers.look(id).await.map_err(step_error(Operation::Resume, id, "look"))? {
                Found::Running => Ok(()),
                Found::Stopped => containers.launch(Operation::Resume, &wanted).await,
                Found::Partial | Found::Nothing => Err(ProviderError::NotFound { provider: KIND, id }),
            }
        })
        .await?;
        Ok(self.report(id))
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        let failed = |step| step_error(Operation::Connect, id, step);
        match self.containers.look(id).await.map_err(failed("look"))? {
            Found::Running => {
                let relay = self.containers.relay(id).map_err(step_error(Operation::Connect, id, "relay"))?;
                Ok(Box::new(relay))
            }
            Found::Stopped | Found::Partial => Err(ProviderError::NotRunning { provider: KIND, id }),
            Found::Nothing => Err(ProviderError::NotFound { provider: KIND, id }),
        }
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        let failed = |error: DockerError| ProviderError::List { provider: KIND, reason: error.to_string() };
        self.containers.list().await.map_err(failed)
    }
}

/// Refuses what this provider cannot give, rather than giving less.
fn enforceable(spec: &SandboxSpec) -> Result<(), ProviderError> {
    let refuse = |what, reason: &str| ProviderError::NotEnforceable {
        provider: KIND,
        what,
        reason: reason.to_owned(),
    };
    match spec {
        SandboxSpec { network: NetworkMode::Internet, .. } => {
            Err(refuse("network", "the daemon has no network"))
        }
        SandboxSpec { base_image: Some(_), .. } => Err(refuse("base_image", "there is one root image only")),
        _ => Ok(()),
    }
}

/// A step that failed.
fn step_error<E: std::fmt::Display>(
    operation: Operation,
    id: WorkspaceId,
    step: &'static str,
) -> impl FnOnce(E) -> ProviderError {
    move |error| ProviderError::Step { provider: KIND, operation, id, step, reason: error.to_string() }
}
