//! Sessions in workspaces, one after the other.

use emergent_store::{AttachError, Store, now};
use emergent_types::WorkspaceId;
use futures::future::join_all;
use uuid::Uuid;

use super::fixtures::{NO_LIMIT, workspace};

async fn placed(store: &dyn Store) -> WorkspaceId {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    row.id
}

pub(crate) async fn one_session_at_a_time(store: &dyn Store) {
    let id = placed(store).await;
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    assert_eq!(store.attach(id, first, now()).await.unwrap().agent_session_id, Some(first));
    // Again is no second time.
    store.attach(id, first, now()).await.unwrap();
    let held = store.attach(id, second, now()).await.unwrap_err();
    assert!(matches!(held, AttachError::Held { holder, .. } if holder == first), "{held:?}");
    // Who is not there cannot go.
    let row = store.detach(id, Some(second), now()).await.unwrap().unwrap();
    assert_eq!(row.agent_session_id, Some(first));
    assert_eq!(store.detach(id, Some(first), now()).await.unwrap().unwrap().agent_session_id, None);
    store.attach(id, second, now()).await.unwrap();
    assert_eq!(store.get_workspace(id).await.unwrap().unwrap().agent_session_id, Some(second));
    let history = store.attachments(id).await.unwrap();
    let seen: Vec<_> = history.iter().map(|one| (one.session_id, one.detached_at.is_some())).collect();
    assert_eq!(seen, [(first, true), (second, false)]);
    assert_eq!(store.detach(id, None, now()).await.unwrap().unwrap().agent_session_id, None);
}

pub(crate) async fn of_many_sessions_one_gets_in(store: &dyn Store) {
    let id = placed(store).await;
    let sessions: Vec<_> = (0..20).map(|_| Uuid::now_v7()).collect();
    let answers = join_all(sessions.iter().map(|&session| store.attach(id, session, now()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(store.attachments(id).await.unwrap().len(), 1);
}

pub(crate) async fn the_history_goes_with_the_workspace(store: &dyn Store) {
    let id = placed(store).await;
    store.attach(id, Uuid::now_v7(), now()).await.unwrap();
    assert!(store.delete_workspace(id).await.unwrap());
    assert_eq!(store.attachments(id).await.unwrap(), []);
    let gone = store.attach(id, Uuid::now_v7(), now()).await.unwrap_err();
    assert!(matches!(gone, AttachError::NotFound { .. }), "{gone:?}");
    assert_eq!(store.detach(id, None, now()).await.unwrap(), None);
}
