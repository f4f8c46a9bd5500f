//! Making a sandbox.
//!
//! ```text
//!  state folder, record: Creating          interrupted here, it is Partial and
//!    └► disk.img from its template         destroy removes it
//!         └► helper: cgroup, socket, mounts, namespaces, agent
//!              └► record: Running
//! ```
//!
//! What fails is undone at once, in the reverse order; what cannot be undone stays visible.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

use emergent_host_disk::{Geometry, copy_sparse};
use emergent_provider::{Operation, ProviderError, Sandbox, SandboxSpec};
use emergent_types::NetworkMode;

use crate::disk;
use crate::launch::{self, DiskContent, LaunchError, LaunchRequest, LaunchStep, Launched, StepTiming};
use crate::layout::DISK_IMAGE;
use crate::means::DiskKind;
use crate::prepared::Prepared;
use crate::provider::{Host, KIND, sandbox, step_error};
use crate::state::{Observed, Phase, SandboxRecord};

impl Host {
    pub(crate) fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let started = Instant::now();
        let prepared = self.prepared()?;
        match self.observe(spec.id) {
            Observed::Running(..) => return Ok(sandbox(&self.layout, spec.id, &prepared.means)),
            // Its agent has died since; its disk is not ours to throw away.
            Observed::Stopped(record) => {
                self.relaunch(&prepared, Operation::Create, spec, record)?;
                return Ok(sandbox(&self.layout, spec.id, &prepared.means));
            }
            Observed::Partial => self.remove(&prepared, Operation::Create, spec.id)?,
            Observed::Absent if prepared.cgroups.exists(&self.layout.group(spec.id)) => {
                self.remove(&prepared, Operation::Create, spec.id)?;
            }
            Observed::Absent => {}
        }
        if let Err(error) = self.make(&prepared, spec) {
            if let Err(remains) = self.remove(&prepared, Operation::Create, spec.id) {
                let id = spec.id;
                tracing::warn!(workspace = %id, "a failed create of {id} has left something: {remains}");
            }
            return Err(error);
        }
        self.startup.add(started.elapsed());
        Ok(sandbox(&self.layout, spec.id, &prepared.means))
    }

    pub(crate) fn make(&self, prepared: &Prepared, spec: &SandboxSpec) -> Result<(), ProviderError> {
        self.make_around(
            prepared,
            Operation::Create,
            spec,
            (prepared.means.disk, DiskContent::New),
            &|folder: &Path| self.make_disk(prepared, spec, folder),
        )
    }

    /// Makes a sandbox with a disk of this kind and content, which `make_disk` makes in its folder.
    pub(crate) fn make_around(
        &self,
        prepared: &Prepared,
        operation: Operation,
        spec: &SandboxSpec,
        (disk, content): (DiskKind, DiskContent),
        make_disk: &dyn Fn(&Path) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let folder = self.layout.sandbox(spec.id);
        let failed = |step| move |error: std::io::Error| step_error(operation, spec.id, step, error);
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failed("state folder"))?;
        let mut record = SandboxRecord {
            installation: self.layout.installation(),
            workspace: spec.id,
            limits: spec.limits,
            named: spec.named,
            launcher: prepared.means.launcher,
            disk,
            connected: spec.network == NetworkMode::Internet,
            phase: Phase::Creating,
        };
        record.save(&folder).map_err(failed("record"))?;
        let copying = Instant::now();
        make_disk(&folder)?;
        let copied = StepTiming { step: LaunchStep::DiskCopy, micros: copying.elapsed().as_micros() as u64 };
        let launched = self.launch(prepared, operation, spec, &record, content)?;
        let steps = std::iter::once(copied).chain(launched.steps.iter().copied()).collect();
        *self.latest_steps.lock().unwrap_or_else(PoisonError::into_inner) = steps;
        record.phase = self.running(spec, launched)?;
        record.save(&folder).map_err(failed("record"))
    }

    fn make_disk(&self, prepared: &Prepared, spec: &SandboxSpec, folder: &Path) -> Result<(), ProviderError> {
        let exhausted = || ProviderError::Exhausted { provider: KIND, resource: "disk", id: spec.id };
        if prepared.means.disk == DiskKind::Folder {
            let accounts = prepared.means.launcher.accounts();
            return disk::folder::make(&prepared.skeleton, folder, spec.id, accounts).map_err(|error| {
                if error.kind() == std::io::ErrorKind::StorageFull {
                    exhausted()
                } else {
                    step_error(Operation::Create, spec.id, LaunchStep::DiskCopy.as_str(), error)
                }
            });
        }
        let template =
            prepared.templates.get(Geometry::for_size(spec.limits.disk.bytes())).map_err(|error| {
                if error.is_out_of_space() {
                    exhausted()
                } else {
                    step_error(Operation::Create, spec.id, "template", error)
                }
            })?;
        copy_sparse(&template, &folder.join(DISK_IMAGE)).map_err(|error| {
            if error.kind() == std::io::ErrorKind::StorageFull {
                exhausted()
            } else {
                step_error(Operation::Create, spec.id, LaunchStep::DiskCopy.as_str(), error)
            }
        })
    }

    /// Starts the helper for a sandbox whose disk is there.
    pub(crate) fn launch(
        &self,
        prepared: &Prepared,
        operation: Operation,
        spec: &SandboxSpec,
        record: &SandboxRecord,
        content: DiskContent,
    ) -> Result<Launched, ProviderError> {
        let exhausted = |resource| ProviderError::Exhausted { provider: KIND, resource, id: spec.id };
        let request = LaunchRequest {
            installation: self.layout.installation(),
            workspace: spec.id,
            server: std::process::id() as i32,
            state_folder: self.layout.sandbox(spec.id),
            agent_folder: prepared.agent_folder.clone(),
            system_folders: prepared.system_folders.clone(),
            launcher: record.launcher,
            disk: record.disk,
            content,
            ids: self.ids.take(spec.id).ok_or_else(|| exhausted("user id ranges"))?,
            limits: spec.limits,
            connected: spec.network == NetworkMode::Internet,
            cgroups: prepared.cgroups.clone(),
            enforced: prepared.means.limits(),
            group: self.layout.group(spec.id),
            agent_key: spec.agent_key.expose_hex(),
        };
        *self.launching.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let result =
            launch::launch(&self.options.helper, &request, &|namespace| self.connect(spec.id, namespace));
        *self.launching.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        result.map_err(|error| match error {
            LaunchError::Spawn { error, .. } if is_shortage(&error) => exhausted("processes"),
            LaunchError::Spawn { .. } => {
                ProviderError::Unavailable { provider: KIND, reason: error.to_string() }
            }
            LaunchError::TimedOut => {
                ProviderError::TimedOut { provider: KIND, operation, id: spec.id, limit: launch::LIMIT }
            }
            LaunchError::Step { step, reason } => step_error(operation, spec.id, step.as_str(), reason),
            LaunchError::Silent { .. } => step_error(operation, spec.id, "launch helper", error),
        })
    }

    pub(crate) fn running(&self, spec: &SandboxSpec, launched: Launched) -> Result<Phase, ProviderError> {
        let ids = self.ids.take(spec.id).ok_or(ProviderError::Exhausted {
            provider: KIND,
            resource: "user id ranges",
            id: spec.id,
        })?;
        Ok(Phase::Running { init: launched.init, ids })
    }
}

/// Whether the host could not start one more process.
fn is_shortage(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}
