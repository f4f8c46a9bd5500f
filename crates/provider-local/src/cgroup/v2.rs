//! One hierarchy for all controllers.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{GroupView, ROOT, SANDBOX, Swap};

/// Controllers a sandbox cannot do without.
const NEEDED: [&str; 3] = ["cpu", "memory", "pids"];

/// The mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct V2 {
    root: PathBuf,
}

impl V2 {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn missing(&self) -> Vec<&'static str> {
        let available = fs::read_to_string(self.root.join("cgroup.controllers")).unwrap_or_default();
        let available: Vec<&str> = available.split_ascii_whitespace().collect();
        NEEDED.into_iter().filter(|needed| !available.contains(needed)).collect()
    }

    pub(super) fn swap(&self) -> Swap {
        // The root group has no such file to look at; a kernel without swap has no list of it.
        if Path::new("/proc/swaps").exists() { Swap::CountedApart } else { Swap::NotCounted }
    }

    pub(super) fn views(&self, group: &str) -> Vec<GroupView> {
        vec![GroupView { source: self.root.join(group).join(SANDBOX), destination: ROOT.into() }]
    }
}
