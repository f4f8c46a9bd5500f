//! Updates.

use std::time::Duration;

use emergent_store::{
    ErrorUpdate, Store, UpdateWorkspaceError, WarningsUpdate, WorkspaceError, WorkspaceRow, WorkspaceUpdate,
};
use emergent_types::{
    DiskEnforcement, IsolationLevel, NetworkMode, Persistence, ProviderKind, WorkspaceId, WorkspaceStatus,
};
use futures::future::join_all;
use serde_json::json;

use super::fixtures::{
    NO_LIMIT, NOON, failed_attempt, full_workspace, object, owner, repositories, succeeded_attempt,
    workspace, workspace_in,
};

/// What the row looks like after `update`; checked to be what is kept, too.
async fn updated(store: &dyn Store, id: WorkspaceId, update: WorkspaceUpdate) -> WorkspaceRow {
    let answer = store.update_workspace(id, update).await.unwrap();
    assert_eq!(store.get_workspace(id).await.unwrap().as_ref(), Some(&answer));
    answer
}

pub(crate) async fn an_update_changes_what_it_names_and_nothing_else(store: &dyn Store) {
    let owner = owner(store).await;
    let full = full_workspace(owner);
    let bystander = workspace();
    for row in [&full, &bystander] {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }

    assert_eq!(updated(store, full.id, WorkspaceUpdate::default()).await, full);

    let update = WorkspaceUpdate {
        expected_status: Some(WorkspaceStatus::Failed),
        status: Some(WorkspaceStatus::Stopped),
        provider: Some(ProviderKind::Firecracker),
        provider_workspace_id: Some("vm-9".to_owned()),
        isolation: Some(IsolationLevel::Container),
        network: Some(NetworkMode::Isolated),
        persistence: Some(Persistence::Full),
        disk_enforcement: Some(DiskEnforcement::Hard),
        attempts: Some(vec![succeeded_attempt()]),
        warnings: WarningsUpdate::Replace(vec![]),
        error: ErrorUpdate::Clear,
        last_used_at: Some(NOON),
        expires_at: Some(NOON + Duration::from_secs(1)),
        resume_attempts: Some(0),
        metadata: Some(object(json!({"new": 1}))),
        repositories: Some(repositories()[..1].to_vec()),
    };
    let expect = WorkspaceRow {
        status: WorkspaceStatus::Stopped,
        provider: ProviderKind::Firecracker,
        provider_workspace_id: "vm-9".to_owned(),
        isolation: Some(IsolationLevel::Container),
        network: NetworkMode::Isolated,
        persistence: Some(Persistence::Full),
        disk_enforcement: Some(DiskEnforcement::Hard),
        attempts: vec![succeeded_attempt()],
        warnings: vec![],
        error: None,
        last_used_at: NOON,
        expires_at: Some(NOON + Duration::from_secs(1)),
        resume_attempts: 0,
        metadata: object(json!({"new": 1})),
        repositories: repositories()[..1].to_vec(),
        ..full.clone()
    };
    assert_eq!(updated(store, full.id, update).await, expect);
    assert_eq!(store.get_workspace(bystander.id).await.unwrap(), Some(bystander));
}

pub(crate) async fn warnings_are_added_once_or_replaced(store: &dyn Store) {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    for (warnings, expect) in [
        (WarningsUpdate::Append(texts(&["a", "b"])), texts(&["a", "b"])),
        (WarningsUpdate::Append(texts(&["b", "c"])), texts(&["a", "b", "c"])),
        (WarningsUpdate::Keep, texts(&["a", "b", "c"])),
        (WarningsUpdate::Replace(texts(&["d"])), texts(&["d"])),
    ] {
        let row = updated(store, row.id, WorkspaceUpdate { warnings, ..WorkspaceUpdate::default() }).await;
        assert_eq!(row.warnings, expect);
    }
}

pub(crate) async fn an_error_is_set_and_cleared(store: &dyn Store) {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let lost = WorkspaceError { code: "lost".to_owned(), message: "gone".to_owned() };
    for (error, expect) in [
        (ErrorUpdate::Keep, None),
        (ErrorUpdate::Set(lost.clone()), Some(lost.clone())),
        (ErrorUpdate::Keep, Some(lost)),
        (ErrorUpdate::Clear, None),
    ] {
        let row = updated(store, row.id, WorkspaceUpdate { error, ..WorkspaceUpdate::default() }).await;
        assert_eq!(row.error, expect);
    }
}

pub(crate) async fn an_update_can_depend_on_the_status(store: &dyn Store) {
    let row = workspace_in(WorkspaceStatus::Ready);
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();

    let update = WorkspaceUpdate {
        expected_status: Some(WorkspaceStatus::Creating),
        attempts: Some(vec![failed_attempt()]),
        ..WorkspaceUpdate::to_status(WorkspaceStatus::Failed)
    };
    let error = store.update_workspace(row.id, update).await.unwrap_err();
    assert!(
        matches!(
            error,
            UpdateWorkspaceError::WrongStatus {
                id,
                expected: WorkspaceStatus::Creating,
                actual: WorkspaceStatus::Ready,
            } if id == row.id
        ),
        "{error:?}"
    );
    assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));

    let nobody = WorkspaceId::generate();
    let error = store.update_workspace(nobody, WorkspaceUpdate::default()).await.unwrap_err();
    assert!(matches!(error, UpdateWorkspaceError::NotFound { id } if id == nobody), "{error:?}");
}

pub(crate) async fn of_many_compare_and_sets_one_wins(store: &dyn Store) {
    let row = workspace_in(WorkspaceStatus::Ready);
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let stop = WorkspaceUpdate {
        expected_status: Some(WorkspaceStatus::Ready),
        ..WorkspaceUpdate::to_status(WorkspaceStatus::Stopping)
    };
    let answers = join_all((0..20).map(|_| store.update_workspace(row.id, stop.clone()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
}

/// Calls are given up after every number of steps; each leaves its write done or not done.
pub(crate) async fn a_dropped_call_leaves_the_store_usable(store: &dyn Store) {
    for steps in 0..40 {
        let row = workspace();
        let mut insert = store.insert_workspace(&row, NO_LIMIT, None);
        let mut finished = false;
        for _ in 0..steps {
            if futures::poll!(insert.as_mut()).is_ready() {
                finished = true;
                break;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        drop(insert);
        let kept = store.get_workspace(row.id).await.unwrap();
        if finished {
            assert_eq!(kept, Some(row));
        }
    }
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
}
