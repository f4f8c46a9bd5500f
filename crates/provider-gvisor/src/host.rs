//! What all operations share. Their code is in the files named after them.

use bollard::Docker;
use emergent_provider::{Operation, ProviderError, SnapshotTurns, StartupTimes};
use emergent_types::{ProviderKind, WorkspaceId};

use crate::agent_volume::AgentVolume;
use crate::disk::layered::{Layout, Roots};
use crate::engine::{Engine, EngineError};
use crate::health::Probe;
use crate::image::{Images, Tidying};
use crate::means::Trial;
use crate::names::Names;
use crate::network::Internet;
use crate::options::Options;
use crate::remains::Remains;
use crate::stream::ProcessStream;
use crate::streams::Streams;

pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) names: Names,
    pub(crate) engine: Engine,
    pub(crate) agent: AgentVolume,
    pub(crate) images: Images,
    pub(crate) tidying: Tidying,
    pub(crate) streams: Streams<ProcessStream>,
    pub(crate) startup: StartupTimes,
    pub(crate) probe: Probe,
    pub(crate) trial: Trial,
    pub(crate) remains: Remains,
    pub(crate) layout: Layout,
    pub(crate) roots: Roots,
    pub(crate) internet: Internet,
    pub(crate) snapshots: SnapshotTurns,
    /// One change of the volumes with names at a time.
    pub(crate) volumes: tokio::sync::Mutex<()>,
}

impl Host {
    pub(crate) fn new(options: Options) -> Self {
        let names = Names { installation: options.installation, provider: options.runtime.kind() };
        let layout = Layout::new(&options.data_dir, names.provider);
        Self {
            names,
            roots: Roots::new(layout.images()),
            layout,
            trial: Trial::default(),
            remains: Remains::default(),
            internet: Internet::default(),
            snapshots: SnapshotTurns::default(),
            volumes: tokio::sync::Mutex::default(),
            engine: Engine::new(options.engine.clone()),
            agent: AgentVolume::new(names, &options.agent),
            images: Images::default(),
            tidying: Tidying::default(),
            streams: Streams::default(),
            startup: StartupTimes::default(),
            probe: Probe::default(),
            options,
        }
    }

    pub(crate) fn kind(&self) -> ProviderKind {
        self.names.provider
    }

    /// Docker, or why there is none.
    pub(crate) async fn docker(&self) -> Result<Docker, ProviderError> {
        self.engine.docker().await.map_err(|error| self.unavailable(error))
    }

    pub(crate) fn unavailable(&self, reason: impl std::fmt::Display) -> ProviderError {
        ProviderError::Unavailable { provider: self.kind(), reason: reason.to_string() }
    }

    pub(crate) fn not_found(&self, id: WorkspaceId) -> ProviderError {
        ProviderError::NotFound { provider: self.kind(), id }
    }

    pub(crate) fn not_running(&self, id: WorkspaceId) -> ProviderError {
        ProviderError::NotRunning { provider: self.kind(), id }
    }

    /// A step that failed.
    pub(crate) fn step(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
        reason: impl std::fmt::Display,
    ) -> ProviderError {
        ProviderError::Step { provider: self.kind(), operation, id, step, reason: reason.to_string() }
    }

    /// A step with Docker that failed.
    pub(crate) fn docker_step(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
    ) -> impl FnOnce(EngineError) -> ProviderError {
        let provider = self.kind();
        move |error| match error {
            // Gone in the middle of it: the same as not there.
            EngineError::Unreachable { .. } => {
                ProviderError::Unavailable { provider, reason: error.to_string() }
            }
            EngineError::Refused(_) => {
                ProviderError::Step { provider, operation, id, step, reason: error.to_string() }
            }
        }
    }
}
