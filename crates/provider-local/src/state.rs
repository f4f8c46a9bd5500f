//! What is known about a sandbox, on disk.
//!
//! ```text
//!            create                    stop                   resume
//!  (nothing) ──────► Creating ─► Running ────► Stopped ──────────────► Running
//!                        │          │             │
//!                        │          └─── destroy ─┴──► Removing ─► (nothing)
//!                        └─ interrupted: Partial           └─ interrupted: Partial
//! ```
//!
//! The record says what was intended, the host says what is: a record that says `Running`
//! whose PID 1 is gone is a stopped sandbox, because its disk is whole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use emergent_provider::NamedDemands;
use emergent_types::{InstallationId, ResourceLimits, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::layout::RECORD;
use crate::means::{DiskKind, Launcher};
use crate::process::ProcessIdentity;
use crate::uid_range::UidRange;

/// What is known about one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) installation: InstallationId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) limits: ResourceLimits,
    /// What must be enforced whenever it is started.
    #[serde(default)]
    pub(crate) named: NamedDemands,
    #[serde(default)]
    pub(crate) launcher: Launcher,
    #[serde(default)]
    pub(crate) disk: DiskKind,
    /// Whether it has a network.
    #[serde(default)]
    pub(crate) connected: bool,
    pub(crate) phase: Phase,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The disk may be incomplete.
    Creating,
    /// The disk is whole and the agent was started.
    Running { init: ProcessIdentity, ids: UidRange },
    /// The disk is whole and nothing should be running.
    Stopped,
    /// Everything is being removed.
    Removing,
}

/// What a state folder and the process table say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Observed {
    /// There is no state folder.
    Absent,
    /// There is a folder, but no sandbox that could be used.
    Partial,
    /// A whole disk without a PID 1.
    Stopped(SandboxRecord),
    /// A living PID 1.
    Running(SandboxRecord, ProcessIdentity, UidRange),
}

impl SandboxRecord {
    /// Looks at a state folder and at the process it names.
    pub(crate) fn observe(folder: &Path) -> Observed {
        if !folder.is_dir() {
            return Observed::Absent;
        }
        let Some(record) = Self::load(folder) else { return Observed::Partial };
        match &record.phase {
            Phase::Creating | Phase::Removing => Observed::Partial,
            Phase::Running { init, ids } if init.is_alive() => {
                let (init, ids) = (init.clone(), *ids);
                Observed::Running(record, init, ids)
            }
            Phase::Running { .. } | Phase::Stopped => Observed::Stopped(record),
        }
    }

    /// `None` when there is no record that can be read.
    pub(crate) fn load(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
    }

    /// Replaces the record in one step: a reader sees the old one or the new one.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        let partial = folder.join(format!(".{RECORD}"));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        drop(file);
        fs::rename(partial, folder.join(RECORD))
    }

    /// Notes that everything is being removed. On a full disk, where room is to be made, the record itself
    /// goes: a folder without one means the same.
    pub(crate) fn save_removing(&self, folder: &Path) -> io::Result<()> {
        let removing = Self { phase: Phase::Removing, ..self.clone() };
        match removing.save(folder) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => fs::remove_file(folder.join(RECORD)),
            saved => saved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(phase: Phase) -> SandboxRecord {
        SandboxRecord {
            installation: InstallationId::generate(),
            workspace: WorkspaceId::generate(),
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            named: NamedDemands::default(),
            launcher: Launcher::Root,
            disk: DiskKind::Image,
            connected: false,
            phase,
        }
    }

    #[test]
    fn what_a_record_means() {
        let folder = tempfile::tempdir().unwrap();
        let ids = UidRange { first: 1 << 30 };
        let me = ProcessIdentity::of(std::process::id() as i32).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let gone = ProcessIdentity::of(ended.id() as i32).unwrap();
        ended.wait().unwrap();

        let check = |phase: Phase, expect: fn(&Observed) -> bool| {
            record(phase.clone()).save(folder.path()).unwrap();
            let observed = SandboxRecord::observe(folder.path());
            assert!(expect(&observed), "{phase:?} was observed as {observed:?}");
        };
        check(Phase::Creating, |seen| matches!(seen, Observed::Partial));
        check(Phase::Removing, |seen| matches!(seen, Observed::Partial));
        check(Phase::Stopped, |seen| matches!(seen, Observed::Stopped(_)));
        check(Phase::Running { init: me, ids }, |seen| matches!(seen, Observed::Running(..)));
        check(Phase::Running { init: gone, ids }, |seen| matches!(seen, Observed::Stopped(_)));

        fs::write(folder.path().join(RECORD), "{").unwrap();
        assert_eq!(SandboxRecord::observe(folder.path()), Observed::Partial);
        fs::remove_file(folder.path().join(RECORD)).unwrap();
        assert_eq!(SandboxRecord::observe(folder.path()), Observed::Partial);
        assert_eq!(SandboxRecord::observe(&folder.path().join("none")), Observed::Absent);
    }
}
