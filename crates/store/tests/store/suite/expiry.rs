//! Use moves the end of a workspace; the sweeper asks who has ended.

use std::time::Duration;

use emergent_store::{Store, Touch, WorkspaceRow, WorkspaceUpdate};
use emergent_types::{ContainerType, Lifecycle, WorkspaceId, WorkspaceStatus};

use super::fixtures::{NO_LIMIT, NOON, count, workspace, workspace_in};

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

pub(crate) async fn only_what_may_end_expires(store: &dyn Store) {
    let mut expect = Vec::new();
    for &lifecycle in Lifecycle::ALL {
        for &status in WorkspaceStatus::ALL {
            for (expires_at, is_over) in [
                (None, false),
                (Some(NOON - MINUTE), true),
                (Some(NOON), true),
                (Some(NOON + Duration::from_millis(1)), false),
            ] {
                if lifecycle == Lifecycle::Persistent && expires_at.is_some() {
                    continue;
                }
                let row = WorkspaceRow { lifecycle, expires_at, ..workspace_in(status) };
                store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
                let can_be_destroyed = matches!(
                    status,
                    WorkspaceStatus::Ready | WorkspaceStatus::Stopped | WorkspaceStatus::Failed
                );
                if lifecycle == Lifecycle::Ephemeral && is_over && can_be_destroyed {
                    expect.push(row.id);
                }
            }
        }
    }
    let mut found = store.expired(NOON, count(1000)).await.unwrap();
    found.sort();
    assert_eq!(found, expect);
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

pub(crate) async fn the_longest_expired_come_first(store: &dyn Store) {
    let mut ids = Vec::new();
    for minutes in [3, 1, 2] {
        let expires_at = Some(NOON - minutes * MINUTE);
        let row = WorkspaceRow { expires_at, ..workspace_in(WorkspaceStatus::Ready) };
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
        ids.push(row.id);
    }
    let expect = [ids[0], ids[2], ids[1]];
    assert_eq!(store.expired(NOON, count(10)).await.unwrap(), expect);
    assert_eq!(store.expired(NOON, count(2)).await.unwrap(), expect[..2]);
}
