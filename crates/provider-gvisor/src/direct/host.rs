//! What all operations share. Their code is in the files named after them.

use std::io;

use emergent_provider::{Operation, ProviderError, SnapshotTurns, StartupTimes};
use emergent_types::{ProviderKind, WorkspaceId};

use super::agent_folder::AgentFolder;
use super::control_group;
use super::images::DirectImages;
use super::layout::Layout;
use super::network::Internet;
use super::options::DirectOptions;
use super::pipes::PipeStream;
use super::runsc::{Runsc, RunscError};
use super::trial::Trial;
use crate::names::Names;
use crate::streams::Streams;

pub(super) struct Host {
    pub(super) options: DirectOptions,
    pub(super) names: Names,
    pub(super) layout: Layout,
    pub(super) runsc: Runsc,
    pub(super) agent: AgentFolder,
    pub(super) images: DirectImages,
    pub(super) streams: Streams<PipeStream>,
    pub(super) startup: StartupTimes,
    pub(super) snapshots: SnapshotTurns,
    /// One change of the volumes with names at a time.
    pub(super) volumes: tokio::sync::Mutex<()>,
    pub(super) trial: Trial,
    pub(super) internet: Internet,
    /// Whether what earlier servers left was looked at.
    pub(super) settled: tokio::sync::OnceCell<()>,
    pub(super) counts_swap: bool,
}

impl Host {
    pub(super) fn new(options: DirectOptions) -> Self {
        let layout = Layout::new(&options.data_dir);
        Self {
            names: Names { installation: options.installation, provider: ProviderKind::Gvisor },
            runsc: Runsc::new(options.runsc.clone(), layout.runsc()),
            agent: AgentFolder::new(layout.agents(), options.agent.clone()),
            images: DirectImages::new(layout.images()),
            internet: Internet::new(options.installation, options.egress_allow.clone()),
            streams: Streams::default(),
            startup: StartupTimes::default(),
            snapshots: SnapshotTurns::default(),
            volumes: tokio::sync::Mutex::default(),
            trial: Trial::default(),
            settled: tokio::sync::OnceCell::new(),
            counts_swap: control_group::counts_swap(),
            layout,
            options,
        }
    }

    pub(super) fn kind(&self) -> ProviderKind {
        self.names.provider
    }

    /// The control group of a workspace's sandbox.
    pub(super) fn group(&self, id: WorkspaceId) -> String {
        control_group::name(self.options.installation, id)
    }

    pub(super) fn unavailable(&self, reason: impl std::fmt::Display) -> ProviderError {
        ProviderError::Unavailable { provider: self.kind(), reason: reason.to_string() }
    }

    pub(super) fn not_found(&self, id: WorkspaceId) -> ProviderError {
        ProviderError::NotFound { provider: self.kind(), id }
    }

    pub(super) fn not_running(&self, id: WorkspaceId) -> ProviderError {
        ProviderError::NotRunning { provider: self.kind(), id }
    }

    /// A step that failed.
    pub(super) fn step(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
        reason: impl std::fmt::Display,
    ) -> ProviderError {
        ProviderError::Step { provider: self.kind(), operation, id, step, reason: reason.to_string() }
    }

    /// A call of runsc that failed.
    pub(super) fn runsc_step(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
    ) -> impl FnOnce(RunscError) -> ProviderError {
        let provider = self.kind();
        move |error| match error {
            RunscError::Start { .. } => ProviderError::Unavailable { provider, reason: error.to_string() },
            _ => ProviderError::Step { provider, operation, id, step, reason: error.to_string() },
        }
    }

    /// Runs work of one step on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, ProviderError> {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) if error.kind() == io::ErrorKind::StorageFull => {
                Err(ProviderError::Exhausted { provider: self.kind(), resource: "disk", id })
            }
            Ok(Err(error)) => Err(self.step(operation, id, step, error)),
            Err(panic) => Err(self.step(operation, id, step, panic)),
        }
    }
}
