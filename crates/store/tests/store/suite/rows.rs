//! Writing, reading and removing whole rows.

use emergent_store::{InsertWorkspaceError, Operation, Store, StoreError, TokenId, WorkspaceRow};
use emergent_types::{
    ContainerType, DeploymentMode, DiskEnforcement, IsolationLevel, Lifecycle, NetworkMode, Persistence,
    ProviderChoice, ProviderKind, WorkspaceId, WorkspaceStatus,
};

use super::fixtures::{NO_LIMIT, full_workspace, owner, workspace, workspace_in};

/// Proves: MIGR-2.5
pub(crate) async fn a_row_comes_back_as_it_was_written(store: &dyn Store) {
    let owner = owner(store).await;
    for row in [workspace(), full_workspace(owner)] {
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
        assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
    }
    assert_eq!(store.get_workspace(WorkspaceId::generate()).await.unwrap(), None);
}

pub(crate) async fn every_word_of_every_vocabulary_can_be_kept(store: &dyn Store) {
    let mut rows: Vec<WorkspaceRow> = Vec::new();
    rows.extend(WorkspaceStatus::ALL.iter().map(|&status| WorkspaceRow { status, ..workspace() }));
    rows.extend(
        ContainerType::ALL.iter().map(|&container_type| WorkspaceRow { container_type, ..workspace() }),
    );
    rows.extend(Lifecycle::ALL.iter().map(|&lifecycle| WorkspaceRow { lifecycle, ..workspace() }));
    rows.extend(NetworkMode::ALL.iter().map(|&network| WorkspaceRow { network, ..workspace() }));
    rows.extend(
        DeploymentMode::ALL.iter().map(|&deployment_mode| WorkspaceRow { deployment_mode, ..workspace() }),
    );
    rows.extend(
        Persistence::ALL
            .iter()
            .map(|&persistence| WorkspaceRow { persistence: Some(persistence), ..workspace() }),
    );
    rows.extend(
        DiskEnforcement::ALL
            .iter()
            .map(|&enforcement| WorkspaceRow { disk_enforcement: Some(enforcement), ..workspace() }),
    );
    rows.extend(ProviderKind::ALL.iter().map(|&provider| WorkspaceRow {
        provider,
        requested_provider: ProviderChoice::Explicit(provider),
        ..workspace()
    }));
    rows.extend(IsolationLevel::ALL.iter().map(|&level| WorkspaceRow {
        min_isolation: level,
        isolation: Some(level),
        ..workspace()
    }));
    for row in rows {
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
        assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
    }
}

pub(crate) async fn an_id_can_be_used_once(store: &dyn Store) {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let again = WorkspaceRow { branch: Some("another".to_owned()), ..row.clone() };
    let error = store.insert_workspace(&again, NO_LIMIT, None).await.unwrap_err();
    assert!(matches!(error, InsertWorkspaceError::AlreadyExists { id } if id == row.id), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
}

pub(crate) async fn an_owner_must_exist(store: &dyn Store) {
    let stranger = TokenId::generate();
    let row = WorkspaceRow { owner_id: Some(stranger), ..workspace() };
    let error = store.insert_workspace(&row, NO_LIMIT, None).await.unwrap_err();
    assert!(
        matches!(error, InsertWorkspaceError::UnknownOwner { id, owner } if id == row.id && owner == Some(stranger)),
        "{error:?}"
    );
    assert_eq!(store.get_workspace(row.id).await.unwrap(), None);
}

pub(crate) async fn a_deleted_row_is_gone(store: &dyn Store) {
    let row = workspace();
    let other = workspace();
    for row in [&row, &other] {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    assert!(store.delete_workspace(row.id).await.unwrap());
    assert!(!store.delete_workspace(row.id).await.unwrap());
    assert_eq!(store.get_workspace(row.id).await.unwrap(), None);
    assert_eq!(store.get_workspace(other.id).await.unwrap(), Some(other));
}

pub(crate) async fn all_rows_are_there_for_reconcile(store: &dyn Store) {
    let rows: Vec<_> = WorkspaceStatus::ALL.iter().map(|&status| workspace_in(status)).collect();
    for row in rows.iter().rev() {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    assert_eq!(store.workspaces_for_reconcile().await.unwrap(), rows, "oldest first");
}

pub(crate) async fn the_installation_is_one(store: &dyn Store) {
    assert_eq!(store.installation(), store.installation());
    assert_ne!(store.installation().secret.expose(), &[0; 32]);
    store.health().await.unwrap();
}

pub(crate) async fn a_closed_store_says_so(store: &dyn Store) {
    store.close().await;
    let error = store.health().await.unwrap_err();
    assert!(matches!(error, StoreError::Closed { operation: Operation::Health }), "{error:?}");
    let error = store.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap_err();
    assert!(matches!(error, InsertWorkspaceError::Store(StoreError::Closed { .. })), "{error:?}");
    assert!(!error.is_retryable());
}
