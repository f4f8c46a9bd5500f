//! Members of pools, and how they become somebody's.

use std::time::Duration;

use emergent_store::{IdempotencyKey, InsertWorkspaceError, Store, WorkspaceFilter, WorkspaceRow};
use emergent_types::{WorkspaceId, WorkspaceStatus};
use futures::future::join_all;

use super::fixtures::{NO_LIMIT, NOON, owner, walk, workspace, workspace_in};

fn member_in(status: WorkspaceStatus) -> WorkspaceRow {
    WorkspaceRow { warm_pool: Some("default".to_owned()), ..workspace_in(status) }
}

async fn member(store: &dyn Store) -> WorkspaceId {
    let member = member_in(WorkspaceStatus::Ready);
    store.insert_workspace(&member, 0, None).await.unwrap();
    member.id
}

fn claimed(id: WorkspaceId) -> WorkspaceRow {
    WorkspaceRow { id, ..workspace_in(WorkspaceStatus::Ready) }
}

pub(crate) async fn members_take_no_place_and_are_not_listed(store: &dyn Store) {
    for &status in WorkspaceStatus::ALL {
        let member = member_in(status);
        store.insert_workspace(&member, 0, None).await.unwrap();
        assert_eq!(store.get_workspace(member.id).await.unwrap(), Some(member));
    }
    assert_eq!(store.count_active().await.unwrap(), 0);
    assert_eq!(walk(store, WorkspaceFilter::default(), 3).await, []);
    assert_eq!(store.workspaces_for_reconcile().await.unwrap().len(), WorkspaceStatus::ALL.len());
}

pub(crate) async fn a_member_becomes_somebodys_workspace(store: &dyn Store) {
    let first = member(store).await;
    let cold = workspace();
    store.insert_workspace(&cold, NO_LIMIT, None).await.unwrap();
    let row = WorkspaceRow {
        owner_id: Some(owner(store).await),
        created_at: NOON + Duration::from_secs(1),
        ..claimed(first)
    };
    store.claim_member(&row, 2, None).await.unwrap();
    assert_eq!(store.get_workspace(first).await.unwrap(), Some(row));
    assert_eq!(store.count_active().await.unwrap(), 2);
    // Made before the other, and somebody's after it.
    assert_eq!(walk(store, WorkspaceFilter::default(), 1).await[0], first);
    assert_eq!(walk(store, WorkspaceFilter::default(), 1).await.len(), 2);
}

pub(crate) async fn of_many_claims_of_a_member_one_wins(store: &dyn Store) {
    let id = member(store).await;
    let row = claimed(id);
    let answers = join_all((0..20).map(|_| store.claim_member(&row, NO_LIMIT, None))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(
            matches!(error, InsertWorkspaceError::NotInPool { id: refused } if refused == id),
            "{error:?}"
        );
    }
}

pub(crate) async fn a_refused_claim_leaves_the_member(store: &dyn Store) {
    let id = member(store).await;
    let full = store.claim_member(&claimed(id), 0, None).await.unwrap_err();
    assert!(matches!(full, InsertWorkspaceError::LimitReached { active: 0, max: 0, .. }), "{full:?}");
    let key = IdempotencyKey { owner: owner(store).await, key: "key".to_owned(), fingerprint: [1; 32] };
    let before = workspace();
    store.insert_workspace(&before, NO_LIMIT, Some(&key)).await.unwrap();
    let known = store.claim_member(&claimed(id), NO_LIMIT, Some(&key)).await.unwrap_err();
    assert!(
        matches!(known, InsertWorkspaceError::KeyKnown { workspace_id, same_request: true } if workspace_id == before.id),
        "{known:?}"
    );
    let still = store.get_workspace(id).await.unwrap().unwrap();
    assert_eq!(still.warm_pool.as_deref(), Some("default"));
    let other = IdempotencyKey { key: "other".to_owned(), ..key };
    store.claim_member(&claimed(id), NO_LIMIT, Some(&other)).await.unwrap();
    let again = store.insert_workspace(&workspace(), NO_LIMIT, Some(&other)).await.unwrap_err();
    assert!(
        matches!(again, InsertWorkspaceError::KeyKnown { workspace_id, .. } if workspace_id == id),
        "{again:?}"
    );
}

pub(crate) async fn only_a_ready_member_can_be_claimed(store: &dyn Store) {
    for &status in WorkspaceStatus::ALL {
        let member = member_in(status);
        store.insert_workspace(&member, NO_LIMIT, None).await.unwrap();
        let answer = store.claim_member(&claimed(member.id), NO_LIMIT, None).await;
        assert_eq!(answer.is_ok(), status == WorkspaceStatus::Ready, "{status}");
    }
    let somebodys = workspace_in(WorkspaceStatus::Ready);
    store.insert_workspace(&somebodys, NO_LIMIT, None).await.unwrap();
    for id in [somebodys.id, WorkspaceId::generate()] {
        let refused = store.claim_member(&claimed(id), NO_LIMIT, None).await.unwrap_err();
        assert!(matches!(refused, InsertWorkspaceError::NotInPool { .. }), "{refused:?}");
    }
    assert_eq!(store.get_workspace(somebodys.id).await.unwrap(), Some(somebodys));
}
