//! Volumes with names, which outlive the workspaces they are mounted in.
//!
//! ```text
//!  who has it ─► disk: found or made ─► mounted ─► bound into the sandbox
//!      │
//!      └ sandboxes/<id>/volumes.json, from before the volume is made until its workspace is destroyed
//! ```
//!
//! Each is a file system of its own with the size it was made with, as with Docker: mounted from its first use
//! until it is removed, and again after a restart of the host. Unlike there, a stopped workspace keeps its
//! volumes from being removed, and none has its place inside another: what is in a volume is its workspaces',
//! and must not decide where something is mounted.

use std::io;
use std::path::{Path, PathBuf};

use emergent_host_disk::DiskError;
use emergent_provider::{Operation, ProviderError, SandboxSpec, VolumeMount, VolumeName};

use super::host::Host;
use super::layout::{Layout, VOLUMES, remove_file, write_file_durably};

/// A volume that is mounted on the host, and its place in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoundVolume {
    pub(super) source: PathBuf,
    pub(super) target: String,
}

impl Host {
    /// The volumes of a workspace, ready to be bound into its sandbox; made where they are not there. From here on
    /// they are the workspace's until it is destroyed, or started again without them.
    pub(super) async fn named_volumes(
        &self,
        operation: Operation,
        spec: &SandboxSpec,
    ) -> Result<Vec<BoundVolume>, ProviderError> {
        let folder = self.layout.sandbox(spec.id);
        if spec.volumes.is_empty() {
            let release = move || remove_file(&folder.join(VOLUMES));
            return self.blocking(operation, spec.id, "volumes", release).await.map(|()| Vec::new());
        }
        if let Some((one, other)) = clash(&spec.volumes) {
            let reason = format!("{other} is inside {one}, which is the place of a volume already");
            return Err(ProviderError::NotEnforceable { provider: self.kind(), what: "volumes", reason });
        }
        let _turn = self.volumes.lock().await;
        let (disks, volumes) = (self.layout.volume_disks(), spec.volumes.clone());
        self.on_disk(operation, spec.id, "disk of a volume", move || {
            hold(&folder, &volumes).map_err(|error| DiskError::Step {
                step: "who has a volume",
                path: folder.join(VOLUMES),
                error,
            })?;
            let bind = |volume: &VolumeMount| {
                Ok(BoundVolume { source: disks.mount(volume)?, target: volume.target().to_owned() })
            };
            volumes.iter().map(bind).collect()
        })
        .await
    }

    /// See [`WorkspaceProvider::remove_volume`](emergent_provider::WorkspaceProvider::remove_volume).
    pub(super) async fn remove_volume(&self, volume: &VolumeName) -> Result<(), ProviderError> {
        let in_use = || ProviderError::VolumeInUse { provider: self.kind(), volume: volume.clone() };
        let _turn = self.volumes.lock().await;
        let (layout, name) = (self.layout.clone(), volume.clone());
        let looked = tokio::task::spawn_blocking(move || is_held(&layout, &name)).await;
        match looked {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => return Err(in_use()),
            Ok(Err(error)) => return Err(self.volume_step(volume, "look who has it", error)),
            Err(panic) => return Err(self.volume_step(volume, "task", panic)),
        }
        let (disks, name) = (self.layout.volume_disks(), volume.clone());
        match tokio::task::spawn_blocking(move || disks.remove(&name)).await {
            Ok(Ok(())) => Ok(()),
            // A process of somebody else's.
            Ok(Err(DiskError::InUse { .. })) => Err(in_use()),
            Ok(Err(error)) => Err(self.volume_step(volume, "remove the disk", error)),
            Err(panic) => Err(self.volume_step(volume, "task", panic)),
        }
    }

    /// See [`WorkspaceProvider::list_volumes`](emergent_provider::WorkspaceProvider::list_volumes).
    pub(super) async fn list_volumes(&self) -> Result<Vec<VolumeName>, ProviderError> {
        let unreadable = |reason: String| ProviderError::List { provider: self.kind(), reason };
        let disks = self.layout.volume_disks();
        let listed = tokio::task::spawn_blocking(move || disks.list()).await;
        let listed = listed.map_err(|panic| unreadable(panic.to_string()))?;
        Ok(listed.map_err(|error| unreadable(error.to_string()))?.into_iter().collect())
    }

    pub(super) fn volume_step(
        &self,
        volume: &VolumeName,
        step: &'static str,
        reason: impl std::fmt::Display,
    ) -> ProviderError {
        ProviderError::VolumeStep {
            provider: self.kind(),
            operation: Operation::RemoveVolume,
            volume: volume.clone(),
            step,
            reason: reason.to_string(),
        }
    }
}

/// Two places of which the second is inside the first, or the same.
fn clash(volumes: &[VolumeMount]) -> Option<(&str, &str)> {
    let places = || volumes.iter().map(VolumeMount::target).enumerate();
    places().find_map(|(one, outer)| {
        let is_inside = |inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        places().find(|(other, inner)| one != *other && is_inside(inner)).map(|(_, inner)| (outer, inner))
    })
}

/// Writes down what a workspace has.
fn hold(sandbox: &Path, volumes: &[VolumeMount]) -> io::Result<()> {
    let names: Vec<&str> = volumes.iter().map(|volume| volume.name().as_str()).collect();
    write_file_durably(&sandbox.join(VOLUMES), &serde_json::to_vec(&names)?, 0o600)
}

/// Whether a workspace has a volume: running, stopped, or half there.
fn is_held(layout: &Layout, volume: &VolumeName) -> io::Result<bool> {
    for id in layout.ids()? {
        let path = layout.sandbox(id).join(VOLUMES);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        // What cannot be read may be anything, so nothing is removed for it.
        let names: Vec<String> = serde_json::from_slice(&text)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        if names.iter().any(|name| name == volume.as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use emergent_types::{ByteSize, WorkspaceId};

    use super::super::layout::private_folder;
    use super::*;

    fn volume(name: &str, target: &str) -> VolumeMount {
        VolumeMount::new(name.parse().unwrap(), target, ByteSize::from_mib(16)).unwrap()
    }

    #[test]
    fn no_place_is_inside_another() {
        let check = |places: &[&str], expect: Option<(&str, &str)>| {
            let volumes: Vec<_> = places.iter().map(|place| volume("data", place)).collect();
            assert_eq!(clash(&volumes), expect, "{places:?}");
        };
        check(&[], None);
        check(&["/a", "/a-b", "/ab", "/b/a"], None);
        check(&["/a", "/a-b", "/a/b"], Some(("/a", "/a/b")));
        check(&["/a/b/c", "/a"], Some(("/a", "/a/b/c")));
        check(&["/a", "/b", "/a"], Some(("/a", "/a")));
    }

    #[test]
    fn a_volume_is_its_workspaces_until_that_says_otherwise() {
        let data = tempfile::tempdir().unwrap();
        let layout = Layout::new(data.path());
        let name: VolumeName = "data".parse().unwrap();
        assert!(!is_held(&layout, &name).unwrap());
        let [one, other] = [(); 2].map(|()| layout.sandbox(WorkspaceId::generate()));
        for sandbox in [&one, &other] {
            private_folder(sandbox).unwrap();
        }
        hold(&one, &[volume("cache", "/cache"), volume("data", "/data")]).unwrap();
        assert!(is_held(&layout, &name).unwrap());
        assert!(!is_held(&layout, &"dat".parse().unwrap()).unwrap());
        hold(&one, &[volume("cache", "/cache")]).unwrap();
        assert!(!is_held(&layout, &name).unwrap());
        // Nobody knows what this one has.
        std::fs::write(other.join(VOLUMES), "").unwrap();
        is_held(&layout, &name).unwrap_err();
    }
}
