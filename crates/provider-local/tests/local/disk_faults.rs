//! Mishaps that only a disk file and control groups can have.

use crate::support::made;
use emergent_provider::{ObservedState, ProviderError, WorkspaceProvider};

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
