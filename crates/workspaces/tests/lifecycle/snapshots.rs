//! Copies of disks, and workspaces made from them.

use std::time::Duration;

use emergent_provider::fake::Fault;
use emergent_provider::{Operation, WorkspaceProvider};
use emergent_store::{Environment, IdempotencyKey, SnapshotFilter, SnapshotStatus, TokenId, WorkspaceRow};
use emergent_types::{NetworkMode, ProviderChoice, ProviderKind, SnapshotId, StopMode, WorkspaceStatus};
use emergent_workspaces::{CreateError, Failpoints, ForkError, Handle, NewWorkspace, Place, SnapshotError};

use crate::setup::{Installation, eventually};

fn from(snapshot: SnapshotId) -> NewWorkspace {
    NewWorkspace { snapshot: Some(snapshot), ..NewWorkspace::default() }
}

impl Installation {
    async fn copies(&self) -> usize {
        self.provider.list_snapshots().await.unwrap().len()
    }

    async fn listed_snapshots(&self) -> usize {
        let (handle, filter) = (self.handle(), SnapshotFilter::default());
        handle.list_snapshots(filter, None, 10.try_into().unwrap()).await.unwrap().items.len()
    }
}

#[tokio::test]
async fn a_workspace_is_made_from_a_copy() {
    let installation = Installation::start().await;
    let first = installation.create().await;
    installation.sh(first.id, "echo before > file").await;
    let handle = installation.handle();
    let snapshot = handle.snapshot(first.id, Some("mine".to_owned()), None).await.unwrap();
    assert_eq!((snapshot.status, snapshot.name.as_deref()), (SnapshotStatus::Ready, Some("mine")));
    installation.sh(first.id, "echo after > file").await;
    handle.stop(first.id, StopMode::Disk).await.unwrap();
    let stopped = handle.snapshot(first.id, None, None).await.unwrap();
    assert_eq!(handle.get(first.id).await.unwrap().status, WorkspaceStatus::Stopped);
    handle.destroy(first.id).await.unwrap();
    for (copy, content) in [(snapshot.id, "before"), (stopped.id, "after")] {
        let second = handle.create(from(copy), true).await.unwrap();
        assert_eq!(installation.sh(second.id, "cat file").await, content);
        assert_eq!(second.snapshot_id, Some(copy.to_string()));
        assert_eq!((second.requested_provider, second.provider), (ProviderChoice::Auto, ProviderKind::Local));
    }
    handle.delete_snapshot(snapshot.id).await.unwrap();
    assert_eq!((installation.copies().await, installation.listed_snapshots().await), (1, 1));
    let gone = handle.create(from(snapshot.id), true).await.unwrap_err();
    assert!(matches!(gone, CreateError::SnapshotNotFound { id } if id == snapshot.id), "{gone}");
    let twice = handle.delete_snapshot(snapshot.id).await.unwrap_err();
    assert!(matches!(twice, SnapshotError::NotFound { .. }), "{twice}");
}

#[tokio::test]
async fn a_copy_gives_no_more_than_there_was() {
    let installation = Installation::start().await;
    let first = installation.create().await;
    let snapshot = installation.handle().snapshot(first.id, None, None).await.unwrap();
    let elsewhere = ProviderChoice::Explicit(ProviderKind::Gvisor);
    for (new, field) in [
        (NewWorkspace { network: Some(NetworkMode::Internet), ..from(snapshot.id) }, "network"),
        (NewWorkspace { provider: elsewhere, ..from(snapshot.id) }, "provider"),
    ] {
        let refused = installation.handle().create(new, true).await.unwrap_err();
        assert!(
            matches!(refused, CreateError::NotEnforceable { field: seen, .. } if seen == field),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn there_are_only_so_many() {
    let installation = Installation::start_with(|options| options.max_snapshots = 2).await;
    let id = installation.create().await.id;
    let handle = installation.handle();
    let first = handle.snapshot(id, None, None).await.unwrap();
    handle.snapshot(id, None, None).await.unwrap();
    let full = handle.snapshot(id, None, None).await.unwrap_err();
    assert!(matches!(full, SnapshotError::QuotaReached { count: 2, max: 2 }), "{full}");
    assert_eq!(installation.copies().await, 2);
    handle.delete_snapshot(first.id).await.unwrap();
    handle.snapshot(id, None, None).await.unwrap();
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    for fault in [Fault::Fail("no room"), Fault::FailAfterwards("the answer was lost")] {
        installation.provider.plan(Operation::Snapshot, fault);
        installation.handle().snapshot(id, None, None).await.unwrap_err();
        assert_eq!((installation.copies().await, installation.listed_snapshots().await), (0, 0));
    }
    installation.handle().snapshot(id, None, None).await.unwrap();
}

/// Rows without a copy, copies without a row, and what was begun when a server was killed.
#[tokio::test]
async fn what_a_crash_leaves_is_repaired() {
    let mut installation = Installation::start().await;
    let id = installation.create().await.id;
    let mut snapshots = Vec::new();
    for _ in 0..5 {
        snapshots.push(installation.handle().snapshot(id, None, None).await.unwrap().id);
    }
    installation.crash().await;
    let store = installation.open_store().await;
    store.set_snapshot_status(snapshots[0], SnapshotStatus::Creating).await.unwrap();
    store.set_snapshot_status(snapshots[1], SnapshotStatus::Deleting).await.unwrap();
    store.delete_snapshot(snapshots[2]).await.unwrap();
    store.close().await;
    drop(store);
    installation.provider.delete_snapshot(snapshots[3]).await.unwrap();
    installation.start_again().await;
    eventually("one row and one copy are left", || async {
        (installation.copies().await, installation.listed_snapshots().await) == (1, 1)
    })
    .await;
    let kept = installation.handle().create(from(snapshots[4]), true).await.unwrap();
    assert_eq!(kept.status, WorkspaceStatus::Ready);
}

#[tokio::test]
async fn sessions_work_one_after_the_other() {
    let mut installation = Installation::start().await;
    let id = installation.create().await.id;
    let (first, second) = (uuid::Uuid::now_v7(), uuid::Uuid::now_v7());
    let handle = installation.handle();
    assert_eq!(handle.attach(id, first).await.unwrap().agent_session_id, Some(first));
    let held = handle.attach(id, second).await.unwrap_err();
    assert!(held.to_string().contains(&first.to_string()), "{held}");
    drop(handle);
    installation.shut_down().await;
    installation.start_again().await;
    let handle = installation.handle();
    assert_eq!(handle.get(id).await.unwrap().agent_session_id, Some(first));
    handle.detach(id, Some(first)).await.unwrap();
    handle.attach(id, second).await.unwrap();
    handle.stop(id, StopMode::Disk).await.unwrap();
    assert_eq!(handle.detach(id, None).await.unwrap().agent_session_id, None);
    let history = handle.attachments(id).await.unwrap();
    assert_eq!(history.iter().map(|one| one.session_id).collect::<Vec<_>>(), [first, second]);
    assert!(history.iter().all(|one| one.detached_at.is_some()));
}

#[tokio::test]
async fn forks_are_like_their_origin_and_apart_from_it() {
    let installation = Installation::start().await;
    let new = NewWorkspace {
        environment: Environment::from_iter([("COLOUR".to_owned(), "green".to_owned())]),
        ..NewWorkspace::default()
    };
    let origin = installation.handle().create(new, true).await.unwrap();
    installation.sh(origin.id, "echo one > file").await;
    let forks = installation.handle().fork(origin.id, 3, None, None).await.unwrap().rows;
    assert_eq!(forks.len(), 3);
    for fork in &forks {
        assert_eq!(installation.sh(fork.id, "cat file; echo $COLOUR").await, "one\ngreen");
        installation.sh(fork.id, "echo two > file").await;
    }
    assert_eq!(installation.sh(origin.id, "cat file").await, "one");
    assert_eq!((installation.copies().await, installation.listed_snapshots().await), (0, 0));
}

#[tokio::test]
async fn where_one_fork_fails_there_is_none() {
    let installation = Installation::start_with(|options| options.max_concurrent = 3).await;
    let origin = installation.create().await;
    let failed = installation.handle().fork(origin.id, 3, None, None).await.unwrap_err();
    assert!(matches!(failed, ForkError::Create(CreateError::LimitReached { .. })), "{failed}");
    assert_eq!(installation.handle().statuses(), [WorkspaceStatus::Ready]);
    assert_eq!((installation.copies().await, installation.listed_snapshots().await), (0, 0));
}

/// A comparison that takes long does not remove what was finished while it went on.
#[tokio::test]
async fn what_is_finished_during_a_comparison_is_kept() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    for _ in 0..3 {
        // The rows are read, then the provider is asked: that is when the copy is finished.
        installation.provider.plan(Operation::Snapshot, Fault::Delay(Duration::from_millis(300)));
        installation.provider.plan(Operation::List, Fault::Delay(Duration::from_millis(500)));
        let taken = installation.handle().snapshot(id, None, None).await.unwrap().id;
        tokio::time::sleep(Duration::from_millis(1200)).await;
        installation.handle().get_snapshot(taken).await.unwrap();
    }
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey { owner: TokenId::generate(), key: text.to_owned(), fingerprint: [1; 32] }
}

/// Whether it failed, and whether the server ended half way.
#[tokio::test]
async fn a_key_is_given_back_where_nothing_was_made() {
    let mut installation = Installation::start().await;
    let id = installation.create().await.id;
    let key = key("k");
    let snapshot = |handle: Handle, key: &IdempotencyKey| {
        let key = Some(key.clone());
        async move { handle.snapshot_once(id, None, None, key).await }
    };
    installation.provider.plan(Operation::Snapshot, Fault::Fail("no"));
    assert!(snapshot(installation.handle(), &key).await.is_err());
    let taken = snapshot(installation.handle(), &key).await.unwrap();
    let again = snapshot(installation.handle(), &key).await.unwrap();
    assert_eq!((taken.replayed, again.replayed, again.row.id), (false, true, taken.row.id));

    installation.provider.plan(Operation::Restore, Fault::Fail("no"));
    let fork = |handle: Handle, key: &IdempotencyKey| {
        let key = Some(key.clone());
        async move { handle.fork(id, 3, None, key).await }
    };
    assert!(fork(installation.handle(), &key).await.is_err());
    let one_at_once = || fork(installation.handle(), &key);
    let (one, other) = tokio::join!(one_at_once(), one_at_once());
    let (one, other) = (one.unwrap(), other.unwrap());
    let ids = |rows: &[WorkspaceRow]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(&one.rows), ids(&other.rows));
    assert!(one.replayed != other.replayed);
    assert_eq!(installation.provider.list().await.unwrap().len(), 4);

    // A fork that was cut off half way is made anew, all of it.
    let failpoints = Failpoints::holding();
    installation.shut_down().await;
    installation.options.failpoints = failpoints.clone();
    installation.start_again().await;
    let cut_off = self::key("cut off");
    failpoints.arm(Place::CreateReady);
    let handle = installation.handle();
    let forking = tokio::spawn(fork(handle, &cut_off));
    failpoints.reached().await;
    installation.crash_with(&failpoints).await;
    assert!(!matches!(forking.await, Ok(Ok(_))), "nobody was promised anything");
    installation.options.failpoints = Failpoints::default();
    installation.start_again().await;
    let forks = fork(installation.handle(), &cut_off).await.unwrap();
    assert_eq!((forks.rows.len(), forks.replayed), (3, false));
    assert!(fork(installation.handle(), &cut_off).await.unwrap().replayed);
    eventually("nothing is left of the first", || async {
        installation.provider.list().await.unwrap().len() == 7
    })
    .await;
}
