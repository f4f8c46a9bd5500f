//! What must be in place before the first sandbox: the agent's program, templates for disks,
//! control groups. And, once per server, the end of what an earlier one left half started.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use emergent_host_disk::Templates;
use emergent_provider::{Operation, ProviderError};

use crate::agent_binary;
use crate::cgroup::Cgroups;
use crate::means::{Launcher, Means};
use crate::provider::{Host, KIND};
use crate::skeleton::{Skeleton, system_folders};
use crate::state::Observed;

/// What is in place.
pub(crate) struct Prepared {
    pub(crate) agent_folder: PathBuf,
    pub(crate) templates: Templates<Skeleton>,
    pub(crate) skeleton: Skeleton,
    pub(crate) means: Means,
    pub(crate) cgroups: Cgroups,
    pub(crate) system_folders: Vec<String>,
}

/// Done once; tried again as long as it fails.
#[derive(Default)]
pub(crate) struct Preparation {
    done: Mutex<Option<Arc<Prepared>>>,
}

impl Host {
    /// Makes sure that everything is in place.
    pub(crate) fn prepared(&self) -> Result<Arc<Prepared>, ProviderError> {
        let mut done = self.preparation.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = &*done {
            return Ok(Arc::clone(prepared));
        }
        let prepared = Arc::new(self.prepare()?);
        self.adopt(&prepared);
        *done = Some(Arc::clone(&prepared));
        Ok(prepared)
    }

    fn prepare(&self) -> Result<Prepared, ProviderError> {
        let unavailable = |what: &str, error: &dyn std::fmt::Display| ProviderError::Unavailable {
            provider: KIND,
            reason: format!("{what}: {error}"),
        };
        let sandboxes = self.layout.sandboxes();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&sandboxes)
            .map_err(|error| unavailable(&sandboxes.display().to_string(), &error))?;
        let agent_folder = agent_binary::install(&self.options.agent, &self.layout.agents())
            .map_err(|error| unavailable("the agent's program", &error))?;
        let means =
            Means::detect(&self.withheld).map_err(|error| unavailable("what the host has", &error))?;
        if means.launcher == Launcher::Root
            && let Some(why) = means.cgroups.unusable()
        {
            return Err(unavailable("control groups", &why));
        }
        let skeleton = Skeleton::of_host(Path::new("/"), means.launcher.accounts())
            .map_err(|error| unavailable("the host's /etc", &error))?;
        let templates = Templates::new(self.layout.templates(), skeleton.clone());
        let cgroups = means.cgroups.clone();
        Ok(Prepared { agent_folder, templates, skeleton, means, cgroups, system_folders: system_folders() })
    }

    /// What there is to work with: what was found when everything was prepared, or else now.
    pub(crate) fn means(&self) -> std::io::Result<Means> {
        let done = self.preparation.done.lock().unwrap_or_else(PoisonError::into_inner);
        match &*done {
            Some(prepared) => Ok(prepared.means.clone()),
            None => Means::detect(&self.withheld),
        }
    }

    /// Takes over what an earlier server left: lets disks go on of which it was taking a copy, notes
    /// the ids of sandboxes that run, and ends what an interrupted resume has left beside a whole disk.
    fn adopt(&self, prepared: &Prepared) {
        let ids = self.ids_with_folders().unwrap_or_else(|error| {
            tracing::error!(%error, "sandboxes of an earlier server are not taken over: {error}");
            Vec::new()
        });
        for id in ids {
            // First, because what waits for a frozen disk can neither go on nor be ended.
            self.thaw(id);
            match self.observe(id) {
                Observed::Running(record, init, ids) => {
                    self.ids.note(id, ids);
                    if record.connected {
                        self.adopt_network(id, &init);
                    }
                }
                Observed::Stopped(_) if prepared.cgroups.is_populated(&self.layout.group(id)) => {
                    match self.end_processes(prepared, Operation::Resume, id, None) {
                        Ok(()) => {
                            tracing::info!(workspace = %id, "ended what an interrupted resume of {id} left");
                        }
                        Err(error) => tracing::warn!(workspace = %id, "{error}"),
                    }
                }
                Observed::Stopped(_) | Observed::Partial | Observed::Absent => {}
            }
        }
        self.settle_network();
    }
}
