//! Mishaps that only a disk file and control groups can have.

use std::fs::File;
use std::io::{ErrorKind, Write};

use crate::support::{made, run, spec, subject_in};
use emergent_provider::{ObservedState, ProviderError, WorkspaceProvider};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

#[tokio::test]
async fn a_sandbox_without_a_state_folder_is_found_by_its_group() {
    let (subject, spec) = made().await;
    let moved = subject.data_dir.path().join("moved");
    std::fs::rename(subject.state_folder(spec.id), &moved).unwrap();
    assert_eq!(subject.only_state().await, ObservedState::Partial);
    subject.remove(spec.id).await;
}

#[tokio::test]
async fn a_broken_disk_is_an_error_and_not_a_loss() {
    let (subject, spec) = made().await;
    subject.provider.stop(spec.id).await.unwrap();
    let image = subject.state_folder(spec.id).join("disk.img");
    let whole = std::fs::read(&image).unwrap();
    std::fs::write(&image, vec![0; whole.len()]).unwrap();
    let error = subject.provider.resume(&spec).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Step { step: "disk", .. }), "{error}");
    assert_eq!(subject.only_state().await, ObservedState::Stopped);
    std::fs::write(&image, whole).unwrap();
    subject.provider.resume(&spec).await.unwrap();
    subject.remove(spec.id).await;
}

/// A file system in memory below a folder of its own; unmounted whatever happens.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(c"size=128m")).unwrap();
        Self(folder)
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut file = File::create(self.0.path().join("filler")).unwrap();
        let end = loop {
            if let Err(error) = file.write(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(end.kind(), ErrorKind::StorageFull, "{end}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

/// Removing writes that it does so. Where there is no room for that, room is what it makes.
#[tokio::test]
async fn on_a_full_disk_nothing_is_made_and_everything_can_be_removed() {
    let disk = SmallDisk::mount();
    let subject = subject_in(tempfile::tempdir_in(disk.0.path()).unwrap());
    let (running, stopped, new) = (spec(), spec(), spec());
    for one in [&running, &stopped] {
        subject.provider.create(one).await.unwrap();
    }
    subject.provider.stop(stopped.id).await.unwrap();
    disk.fill();
    subject.provider.create(&new).await.unwrap_err();
    assert!(!subject.state_folder(new.id).exists(), "nothing of it is left");
    assert_eq!(run(&subject.provider, running.id, "echo works").await.ok(), "works");
    subject.provider.destroy(running.id).await.unwrap();
    disk.fill();
    subject.provider.destroy(stopped.id).await.unwrap();
    std::fs::remove_file(disk.0.path().join("filler")).unwrap();
    subject.provider.create(&new).await.unwrap();
    subject.remove(new.id).await;
}
