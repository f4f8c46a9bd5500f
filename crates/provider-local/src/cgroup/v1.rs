//! One hierarchy per controller, as on hosts that boot the legacy or hybrid layout.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{CgroupMount, GroupView, ROOT, SANDBOX, Swap};

/// Controllers that are used as far as they are there. `devices` limits nothing that the user namespace
/// does not, but `libcontainer` insists on it.
const USED: [&str; 4] = ["cpu", "memory", "pids", "devices"];

/// Where every process of a sandbox is to be found: in the first of these.
const USED_FOR_ROSTER: [&str; 4] = ["pids", "memory", "cpu", "devices"];

/// What a sandbox is shown of itself.
const SHOWN: [&str; 3] = ["cpu", "memory", "pids"];

/// The mounted hierarchies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct V1 {
    hierarchies: Vec<Hierarchy>,
    roster: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Hierarchy {
    point: PathBuf,
    controllers: Vec<String>,
    /// Systemd keeps its services apart in this one: a sandbox must not be in the server's
    /// group there, or a restart of the service would end it.
    tracks_services: bool,
}

impl Hierarchy {
    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|own| own == controller)
    }
}

impl V1 {
    /// `None` where there is no hierarchy at all.
    pub(super) fn from_mounts(mounts: Vec<CgroupMount>) -> Option<Self> {
        let hierarchies: Vec<Hierarchy> = mounts
            .into_iter()
            .map(|mount| Hierarchy {
                tracks_services: mount.unified || mount.controllers.iter().any(|name| name == "name=systemd"),
                point: mount.point,
                controllers: mount.controllers,
            })
            .collect();
        let with = |controller| hierarchies.iter().find(|hierarchy| hierarchy.has(controller));
        let roster = USED_FOR_ROSTER.into_iter().find_map(with)?.point.clone();
        Some(Self { hierarchies, roster })
    }

    pub(super) fn has(&self, controller: &str) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.has(controller))
    }

    /// Forgets controllers, as if they were not there.
    pub(super) fn withhold(&mut self, names: &[&str]) {
        for hierarchy in &mut self.hierarchies {
            hierarchy.controllers.retain(|own| !names.contains(&own.as_str()));
        }
    }

    pub(super) fn roster(&self) -> &Path {
        &self.roster
    }

    pub(super) fn roots(&self) -> Vec<&Path> {
        self.hierarchies.iter().map(|hierarchy| hierarchy.point.as_path()).collect()
    }

    pub(super) fn tracking_roots(&self) -> Vec<&Path> {
        let services = self.hierarchies.iter().filter(|hierarchy| hierarchy.tracks_services);
        std::iter::once(self.roster()).chain(services.map(|hierarchy| hierarchy.point.as_path())).collect()
    }

    /// The hierarchies `libcontainer` is to see and use. It would enter every one it finds,
    /// at some milliseconds each.
    pub(crate) fn used(&self) -> Vec<&Path> {
        self.with_any(&USED)
    }

    pub(super) fn views(&self, group: &str) -> Vec<GroupView> {
        self.with_any(&SHOWN)
            .into_iter()
            .map(|point| GroupView {
                source: point.join(group).join(SANDBOX),
                destination: Path::new(ROOT).join(point.file_name().unwrap_or_default()),
            })
            .collect()
    }

    pub(super) fn swap(&self) -> Swap {
        let counted =
            self.with_any(&["memory"]).iter().any(|point| point.join("memory.memsw.limit_in_bytes").exists());
        if counted { Swap::CountedWithMemory } else { Swap::NotCounted }
    }

    /// Where the groups of a controller are.
    pub(super) fn hierarchy(&self, controller: &str) -> Option<&Path> {
        self.with_any(&[controller]).first().copied()
    }

    fn with_any(&self, controllers: &[&str]) -> Vec<&Path> {
        self.hierarchies
            .iter()
            .filter(|hierarchy| controllers.iter().any(|controller| hierarchy.has(controller)))
            .map(|hierarchy| hierarchy.point.as_path())
            .collect()
    }
}
