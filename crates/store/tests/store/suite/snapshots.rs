//! Copies of workspaces' disks.

use emergent_store::{
    IdempotencyKey, InsertSnapshotError, SnapshotFilter, SnapshotRow, SnapshotStatus, Store, TokenId, now,
};
use emergent_types::{IsolationLevel, NetworkMode, ProviderKind, ResourceLimits, SnapshotId, WorkspaceId};
use futures::future::join_all;

use super::fixtures::{NO_LIMIT, count, owner, repositories};

fn snapshot(workspace_id: WorkspaceId, owner_id: Option<TokenId>) -> SnapshotRow {
    SnapshotRow {
        id: SnapshotId::generate(),
        workspace_id,
        provider: ProviderKind::Local,
        status: SnapshotStatus::Creating,
        name: Some("before the \u{fc}pgrade".to_owned()),
        isolation: IsolationLevel::Container,
        network: NetworkMode::Isolated,
        resource_limits: ResourceLimits::WORKSPACE_DEFAULT,
        base_image: None,
        repository_url: Some("https://example.org/repository.git".to_owned()),
        branch: Some("main".to_owned()),
        repositories: repositories(),
        owner_id,
        created_at: now(),
    }
}

pub(crate) async fn a_snapshot_comes_back_as_it_was_written(store: &dyn Store) {
    let row = snapshot(WorkspaceId::generate(), Some(owner(store).await));
    store.insert_snapshot(&row, NO_LIMIT, None).await.unwrap();
    assert_eq!(store.get_snapshot(row.id).await.unwrap().as_ref(), Some(&row));
    for status in [SnapshotStatus::Ready, SnapshotStatus::Deleting, SnapshotStatus::Creating] {
        assert!(store.set_snapshot_status(row.id, status).await.unwrap());
        let expect = SnapshotRow { status, ..row.clone() };
        assert_eq!(store.get_snapshot(row.id).await.unwrap(), Some(expect));
    }
    assert_eq!(store.snapshots_for_reconcile().await.unwrap(), std::slice::from_ref(&row));
    assert!(store.delete_snapshot(row.id).await.unwrap());
    assert!(!store.delete_snapshot(row.id).await.unwrap());
    assert!(!store.set_snapshot_status(row.id, SnapshotStatus::Ready).await.unwrap());
    assert_eq!(store.get_snapshot(row.id).await.unwrap(), None);
}

pub(crate) async fn the_quota_is_exact(store: &dyn Store) {
    let rows: Vec<_> = (0..10).map(|_| snapshot(WorkspaceId::generate(), None)).collect();
    let answers = join_all(rows.iter().map(|row| store.insert_snapshot(row, 4, None))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 4);
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(error, InsertSnapshotError::QuotaReached { count: 4, max: 4, .. }), "{error:?}");
    }
    assert_eq!(store.snapshots_for_reconcile().await.unwrap().len(), 4);
}

pub(crate) async fn snapshots_are_listed_newest_first(store: &dyn Store) {
    let owners = [owner(store).await, owner(store).await];
    let workspaces = [WorkspaceId::generate(), WorkspaceId::generate()];
    let mut rows = Vec::new();
    for _ in 0..2 {
        for workspace in workspaces {
            for owner in owners {
                let row = snapshot(workspace, Some(owner));
                store.insert_snapshot(&row, NO_LIMIT, None).await.unwrap();
                rows.push(row);
            }
        }
    }
    rows.reverse();
    for filter in [
        SnapshotFilter::default(),
        SnapshotFilter { owner: Some(owners[0]), workspace: None },
        SnapshotFilter { owner: Some(owners[1]), workspace: Some(workspaces[0]) },
    ] {
        let expect: Vec<_> = rows
            .iter()
            .filter(|row| filter.owner.is_none() || row.owner_id == filter.owner)
            .filter(|row| filter.workspace.is_none_or(|workspace| row.workspace_id == workspace))
            .cloned()
            .collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.list_snapshots(filter, after, count(3)).await.unwrap();
            seen.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, expect, "{filter:?}");
    }
}

pub(crate) async fn a_key_is_good_for_one_snapshot(store: &dyn Store) {
    let key = IdempotencyKey { owner: TokenId::generate(), key: "key".to_owned(), fingerprint: [1; 32] };
    let known = async |key: &IdempotencyKey| {
        let row = snapshot(WorkspaceId::generate(), None);
        match store.insert_snapshot(&row, NO_LIMIT, Some(key)).await.unwrap_err() {
            InsertSnapshotError::KeyKnown { snapshot_id, same_request } => (snapshot_id, same_request),
            other => panic!("{other:?}"),
        }
    };
    let unfinished = snapshot(WorkspaceId::generate(), None);
    let full = store.insert_snapshot(&unfinished, 0, Some(&key)).await.unwrap_err();
    assert!(matches!(full, InsertSnapshotError::QuotaReached { .. }), "{full:?}");
    store.insert_snapshot(&unfinished, NO_LIMIT, Some(&key)).await.unwrap();
    assert_eq!(known(&key).await, (unfinished.id, true));
    // One that was never whole gives its key back, and one that was keeps it.
    store.delete_snapshot(unfinished.id).await.unwrap();
    let whole = snapshot(WorkspaceId::generate(), None);
    store.insert_snapshot(&whole, NO_LIMIT, Some(&key)).await.unwrap();
    store.set_snapshot_status(whole.id, SnapshotStatus::Ready).await.unwrap();
    let another_request = IdempotencyKey { fingerprint: [2; 32], ..key.clone() };
    assert_eq!(known(&another_request).await, (whole.id, false));
    store.set_snapshot_status(whole.id, SnapshotStatus::Deleting).await.unwrap();
    store.delete_snapshot(whole.id).await.unwrap();
    assert_eq!(known(&key).await, (whole.id, true));
    assert_eq!(store.prune_idempotency_keys(now() + std::time::Duration::from_secs(60)).await.unwrap(), 1);
    let anew = snapshot(WorkspaceId::generate(), None);
    store.insert_snapshot(&anew, NO_LIMIT, Some(&key)).await.unwrap();
}
