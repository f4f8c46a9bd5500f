//! What exists. Looked for in every place where something can be left: state folders, control
//! groups, links, and the process table for launch helpers.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use emergent_provider::{ObservedSandbox, ObservedState, ProviderError};
use emergent_types::{InstallationId, WorkspaceId};

use crate::cgroup::Cgroups;
use crate::launch::{INSTALLATION_FLAG, WORKSPACE_FLAG};
use crate::provider::{Host, KIND};
use crate::state::{Observed, SandboxRecord};

impl Host {
    pub(crate) fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        let unreadable = |error: io::Error| ProviderError::List { provider: KIND, reason: error.to_string() };
        let mut found = BTreeMap::new();
        for id in self.ids_with_folders().map_err(unreadable)? {
            let state = match self.observe(id) {
                Observed::Running(..) => ObservedState::Running,
                Observed::Stopped(_) => ObservedState::Stopped,
                Observed::Partial => ObservedState::Partial,
                // Removed since the folder was listed.
                Observed::Absent => continue,
            };
            found.insert(id, state);
        }
        // Asked of the host and not of what was prepared: there is something to see also where
        // nothing can be made.
        let groups = Cgroups::detect().map_err(unreadable)?.names_below(&self.layout.installation_group());
        let helpers = launch_helpers(self.layout.installation()).map_err(unreadable)?;
        let links = self.network.list().unwrap_or_default();
        let elsewhere = groups
            .iter()
            .filter_map(|name| name.parse().ok())
            .chain(helpers.into_iter().map(|(id, _)| id))
            .chain(links.into_iter().filter_map(|left| left.workspace));
        for id in elsewhere {
            found.entry(id).or_insert(ObservedState::Partial);
        }
        // A health check's own sandbox is nobody's to repair. After a crash it is an orphan.
        if let Some(probe) = self.probe.under_way() {
            found.remove(&probe);
        }
        Ok(found.into_iter().map(|(id, state)| ObservedSandbox { id, state }).collect())
    }

    /// Looks at one sandbox.
    pub(crate) fn observe(&self, id: WorkspaceId) -> Observed {
        SandboxRecord::observe(&self.layout.sandbox(id))
    }

    /// Every workspace of this installation that has a state folder.
    pub(crate) fn ids_with_folders(&self) -> io::Result<Vec<WorkspaceId>> {
        let foreign = |id: &WorkspaceId| {
            SandboxRecord::load(&self.layout.sandbox(*id))
                .is_some_and(|record| record.installation != self.layout.installation())
        };
        let entries = match fs::read_dir(self.layout.sandboxes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        // What cannot be read is not what is not there.
        let entries = entries.collect::<io::Result<Vec<_>>>()?;
        let ids = entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Ok(ids.filter(|id| !foreign(id)).collect())
    }
}

/// The processes of launch helpers for one workspace.
pub(crate) fn helpers_of(installation: InstallationId, id: WorkspaceId) -> io::Result<Vec<i32>> {
    Ok(launch_helpers(installation)?.into_iter().filter(|(of, _)| *of == id).map(|(_, pid)| pid).collect())
}

/// Every launch helper of an installation, and what it has forked and not yet executed.
fn launch_helpers(installation: InstallationId) -> io::Result<Vec<(WorkspaceId, i32)>> {
    Ok(fs::read_dir("/proc")?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((workspace_of(&arguments, installation)?, pid))
        })
        .collect())
}

/// Whom a helper with these arguments works for, if it is one of this installation.
fn workspace_of(arguments: &[u8], installation: InstallationId) -> Option<WorkspaceId> {
    let arguments: Vec<&str> =
        arguments.split(|byte| *byte == 0).map(std::str::from_utf8).collect::<Result<_, _>>().ok()?;
    let installation = installation.to_string();
    arguments.windows(4).find_map(|window| match window {
        [INSTALLATION_FLAG, of, WORKSPACE_FLAG, id] if *of == installation => id.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_known_by_its_arguments() {
        let (installation, id) = (InstallationId::generate(), WorkspaceId::generate());
        let line = |installation: &str, id: &str| {
            format!("/proc/self/exe\0__local\0--installation\0{installation}\0--workspace\0{id}\0")
                .into_bytes()
        };
        let ours = line(&installation.to_string(), &id.to_string());
        assert_eq!(workspace_of(&ours, installation), Some(id));
        assert_eq!(workspace_of(&ours, InstallationId::generate()), None);
        assert_eq!(workspace_of(&line(&installation.to_string(), "../x"), installation), None);
        assert_eq!(workspace_of(b"bash\0-c\0true\0", installation), None);
        assert_eq!(workspace_of(b"\xff\0", installation), None);
        assert_eq!(workspace_of(b"", installation), None);
    }
}
