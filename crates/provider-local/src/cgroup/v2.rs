//! One hierarchy for all controllers.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{GroupView, ROOT, SANDBOX, Swap};

/// The mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct V2 {
    root: PathBuf,
    withheld: Vec<String>,
}

impl V2 {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, withheld: Vec::new() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn has(&self, controller: &str) -> bool {
        let available = fs::read_to_string(self.root.join("cgroup.controllers")).unwrap_or_default();
        let withheld = self.withheld.iter().any(|name| name == controller);
        !withheld && available.split_ascii_whitespace().any(|name| name == controller)
    }

    /// Forgets controllers, as if they were not there.
    pub(super) fn withhold(&mut self, names: &[&str]) {
        self.withheld.extend(names.iter().map(|name| (*name).to_owned()));
    }

    pub(super) fn swap(&self) -> Swap {
        // The root group has no such file to look at; a kernel without swap has no list of it.
        if Path::new("/proc/swaps").exists() { Swap::CountedApart } else { Swap::NotCounted }
    }

    pub(super) fn views(&self, group: &str) -> Vec<GroupView> {
        vec![GroupView { source: self.root.join(group).join(SANDBOX), destination: ROOT.into() }]
    }
}
