//! Starting a sandbox around a disk that was kept.

use std::sync::PoisonError;

use emergent_provider::{Operation, ProviderError, Sandbox, SandboxSpec};
use emergent_types::NetworkMode;

use crate::enforceable;
use crate::launch::DiskContent;
use crate::means::Launcher;
use crate::prepared::Prepared;
use crate::provider::{Host, KIND, sandbox, step_error};
use crate::state::{Observed, SandboxRecord};

impl Host {
    pub(crate) fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let prepared = self.prepared()?;
        match self.observe(spec.id) {
            Observed::Running(..) => {}
            Observed::Stopped(record) => self.relaunch(&prepared, Operation::Resume, spec, record)?,
            Observed::Partial | Observed::Absent => {
                return Err(ProviderError::NotFound { provider: KIND, id: spec.id });
            }
        }
        Ok(sandbox(&self.layout, spec.id, &prepared.means))
    }

    /// Starts a sandbox whose disk is whole. When that fails the disk is kept and nothing
    /// runs, as before.
    pub(crate) fn relaunch(
        &self,
        prepared: &Prepared,
        operation: Operation,
        spec: &SandboxSpec,
        mut record: SandboxRecord,
    ) -> Result<(), ProviderError> {
        // What its request named is promised for as long as it exists.
        enforceable::check_limits(&prepared.means, record.named, record.disk)?;
        if record.launcher != prepared.means.launcher {
            let reason = match record.launcher {
                Launcher::Root => "it was made by a server that ran as root; start the server as root",
                Launcher::Unprivileged => {
                    "it was made by a server that did not run as root; start the server as that account"
                }
            };
            return Err(step_error(operation, spec.id, "disk", reason));
        }
        // What an earlier attempt or a PID 1 that died may have left.
        self.end_processes(prepared, operation, spec.id, None)?;
        let launched = match self.launch(prepared, operation, spec, &record, DiskContent::Kept) {
            Ok(launched) => launched,
            Err(error) => {
                if let Err(remains) = self.end_processes(prepared, operation, spec.id, None) {
                    let id = spec.id;
                    tracing::warn!(workspace = %id, "a failed {operation} of {id} has left something: {remains}");
                }
                return Err(error);
            }
        };
        launched.steps.clone_into(&mut self.latest_steps.lock().unwrap_or_else(PoisonError::into_inner));
        record.connected = spec.network == NetworkMode::Internet;
        record.limits.cpu = spec.limits.cpu;
        record.limits.memory = spec.limits.memory;
        record.phase = self.running(spec, launched)?;
        record
            .save(&self.layout.sandbox(spec.id))
            .map_err(|error| step_error(operation, spec.id, "record", error))
    }
}
