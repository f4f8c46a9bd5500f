//! What is written down beside a disk, because another server must know it to start the workspace again.

use std::io;
use std::path::Path;

use emergent_types::NetworkMode;
use serde::{Deserialize, Serialize};

use super::layout::{RECORD, write_file};

/// Written when a disk is whole; a folder without one is the remains of a create or a destroy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The root that the disk is laid over.
    pub(super) image: String,
    /// What it may reach.
    pub(super) network: NetworkMode,
}

impl Record {
    pub(super) fn save(&self, folder: &Path) -> io::Result<()> {
        write_file(&folder.join(RECORD), &serde_json::to_vec(self)?, 0o600)
    }

    /// `None` where there is none that makes sense.
    pub(super) fn load(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(RECORD)).ok()?).ok()
    }
}
