//! Which of the two ways to get under gVisor the workspaces of a data folder have: one cannot go on with what
//! the other has made.

use std::path::Path;

use super::layout::Layout;
use crate::disk::layered;
use emergent_types::ProviderKind;

/// A way to get under gVisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GvisorWay {
    /// Containers of Docker's.
    Docker,
    /// `runsc` itself.
    Direct,
}

/// The way that a data folder has workspaces of, or volumes, or copies of disks; Docker's, where it has both. A
/// server that finds no Docker for a moment must not take it for having none.
pub fn way_in_use(data_dir: &Path) -> Option<GvisorWay> {
    let has_any =
        |folder: &Path| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok()));
    let (docker, direct) = (layered::Layout::new(data_dir, ProviderKind::Gvisor), Layout::new(data_dir));
    // Workspaces before volumes, and those before copies of disks, which nobody may ever want.
    let candidates = [
        (docker.disks(), GvisorWay::Docker),
        (direct.sandboxes(), GvisorWay::Direct),
        (docker.volume_disks().volumes, GvisorWay::Docker),
        (direct.volume_disks().volumes, GvisorWay::Direct),
        (docker.snapshots().folder().to_owned(), GvisorWay::Docker),
        (direct.snapshots().folder().to_owned(), GvisorWay::Direct),
    ];
    candidates.into_iter().find(|(folder, _)| has_any(folder)).map(|(_, way)| way)
}

/// Whether a server with this data folder has used a Docker of this host's. Then it has one, and where nobody
/// listens it is only away: after a reboot it may come later than the server.
pub fn docker_was_used(data_dir: &Path) -> bool {
    layered::Layout::new(data_dir, ProviderKind::Gvisor).images().is_dir() || {
        let used = [ProviderKind::Gvisor, ProviderKind::Docker];
        used.iter().any(|kind| layered::Layout::new(data_dir, *kind).disks().is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_decides() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(way_in_use(data.path()), None);
        std::fs::create_dir_all(data.path().join("direct/sandboxes")).unwrap();
        assert_eq!(way_in_use(data.path()), None);
        std::fs::create_dir_all(data.path().join("direct/snapshots/one")).unwrap();
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Direct));
        assert!(!docker_was_used(data.path()));
        std::fs::create_dir_all(data.path().join("containers/snapshots/gvisor/two")).unwrap();
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Docker));
        std::fs::create_dir_all(data.path().join("direct/volumes/data")).unwrap();
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Direct));
        std::fs::create_dir_all(data.path().join("containers/volumes/.empty")).unwrap();
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Direct));
        std::fs::create_dir_all(data.path().join("containers/volumes/gvisor/data")).unwrap();
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Docker));
        std::fs::create_dir(data.path().join("direct/sandboxes/one")).unwrap();
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Direct));
        std::fs::create_dir_all(data.path().join("containers/gvisor/two")).unwrap();
        assert!(docker_was_used(data.path()));
        assert_eq!(way_in_use(data.path()), Some(GvisorWay::Docker));
    }
}
