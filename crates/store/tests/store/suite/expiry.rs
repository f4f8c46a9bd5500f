//! Use moves the end of a workspace.

use std::time::Duration;

use emergent_store::{Store, Touch, WorkspaceRow, WorkspaceUpdate};
use emergent_types::{ContainerType, Lifecycle, WorkspaceId, WorkspaceStatus};

use super::fixtures::{NO_LIMIT, NOON, workspace, workspace_in};

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn a_touch_moves_both_times(store: &dyn Store) {
    let used = workspace();
    let unused = workspace();
    for row in [&used, &unused] {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    let (last_used_at, expires_at) = (NOON + MINUTE, Some(NOON + 2 * MINUTE));
    let touch = Touch { id: used.id, last_used_at, expires_at };
    assert_eq!(store.touch_workspaces(&[touch]).await.unwrap(), 1);
    let expect = WorkspaceRow { last_used_at, expires_at, ..used };
    assert_eq!(store.get_workspace(expect.id).await.unwrap(), Some(expect));
    assert_eq!(store.get_workspace(unused.id).await.unwrap(), Some(unused));
}

pub(crate) async fn a_touch_passes_over_what_is_gone(store: &dyn Store) {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let touches = [WorkspaceId::generate(), row.id].map(|id| Touch {
        id,
        last_used_at: NOON + MINUTE,
        expires_at: None,
    });
    assert_eq!(store.touch_workspaces(&touches).await.unwrap(), 1);
    assert_eq!(store.get_workspace(row.id).await.unwrap().unwrap().last_used_at, NOON + MINUTE);
    assert_eq!(store.touch_workspaces(&[]).await.unwrap(), 0);

    let twice =
        [2, 3].map(|minutes| Touch { id: row.id, last_used_at: NOON + minutes * MINUTE, expires_at: None });
    assert_eq!(store.touch_workspaces(&twice).await.unwrap(), 1, "the last of two counts");
    assert_eq!(store.get_workspace(row.id).await.unwrap().unwrap().last_used_at, NOON + 3 * MINUTE);
}

pub(crate) async fn the_last_use_never_moves_back(store: &dyn Store) {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let touch = Touch { id: row.id, last_used_at: NOON - MINUTE, expires_at: Some(NOON) };
    store.touch_workspaces(&[touch]).await.unwrap();
    let kept = store.get_workspace(row.id).await.unwrap().unwrap();
    assert_eq!((kept.last_used_at, kept.expires_at), (NOON, Some(NOON)));
}

/// Proves: DESIGN-9.3
pub(crate) async fn what_is_persistent_has_no_end(store: &dyn Store) {
    let server = WorkspaceRow {
        container_type: ContainerType::McpServer,
        lifecycle: Lifecycle::Persistent,
        ..workspace_in(WorkspaceStatus::Ready)
    };
    let mortal = WorkspaceRow { expires_at: Some(NOON), ..server.clone() };
    assert!(store.insert_workspace(&mortal, NO_LIMIT, None).await.is_err());

    store.insert_workspace(&server, NO_LIMIT, None).await.unwrap();
    let update = WorkspaceUpdate { expires_at: Some(NOON), ..WorkspaceUpdate::default() };
    assert_eq!(store.update_workspace(server.id, update).await.unwrap(), server);
    let touch = Touch { id: server.id, last_used_at: NOON + MINUTE, expires_at: Some(NOON) };
    assert_eq!(store.touch_workspaces(&[touch]).await.unwrap(), 1);
    let expect = WorkspaceRow { last_used_at: NOON + MINUTE, ..server };
    assert_eq!(store.get_workspace(expect.id).await.unwrap(), Some(expect));
}
