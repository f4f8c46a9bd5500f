//! The concurrency limit: exact, however many ask at once.

use emergent_store::{
    ClaimResumeError, InsertWorkspaceError, Store, UpdateWorkspaceError, WorkspaceRow, WorkspaceUpdate,
};
use emergent_types::{ContainerType, WorkspaceId, WorkspaceStatus};
use futures::future::{join, join_all};

use super::fixtures::{NO_LIMIT, workspace, workspace_in};

/// Makes one workspace in every status.
async fn one_of_each(store: &dyn Store, container_type: ContainerType) {
    for &status in WorkspaceStatus::ALL {
        let row = WorkspaceRow { container_type, ..workspace_in(status) };
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    }
}

pub(crate) async fn the_limit_counts_what_holds_a_sandbox(store: &dyn Store) {
    let mut expect = 0;
    for &status in WorkspaceStatus::ALL {
        store.insert_workspace(&workspace_in(status), NO_LIMIT, None).await.unwrap();
        expect += u32::from(status.counts_as_active());
        assert_eq!(store.count_active().await.unwrap(), expect, "with one {status}");
    }
}

/// Proves: DESIGN-9.2
pub(crate) async fn mcp_servers_take_no_place(store: &dyn Store) {
    one_of_each(store, ContainerType::McpServer).await;
    assert_eq!(store.count_active().await.unwrap(), 0);
    let server = WorkspaceRow { container_type: ContainerType::McpServer, ..workspace() };
    store.insert_workspace(&server, 0, None).await.unwrap();
    let stopped = WorkspaceRow { status: WorkspaceStatus::Stopped, id: WorkspaceId::generate(), ..server };
    store.insert_workspace(&stopped, 0, None).await.unwrap();
    assert_eq!(store.claim_resume(stopped.id, 0).await.unwrap().status, WorkspaceStatus::Resuming);
    store.insert_workspace(&workspace(), 1, None).await.unwrap();
}

pub(crate) async fn the_last_place_is_given_once(store: &dyn Store) {
    const MAX: u32 = 5;
    let rows: Vec<_> = (0..30).map(|_| workspace()).collect();
    let answers = join_all(rows.iter().map(|row| store.insert_workspace(row, MAX, None))).await;
    for (row, answer) in rows.iter().zip(&answers) {
        assert_eq!(store.get_workspace(row.id).await.unwrap().is_some(), answer.is_ok());
        if let Err(error) = answer {
            assert!(
                matches!(error, InsertWorkspaceError::LimitReached { id, active: MAX, max: MAX } if *id == row.id),
                "{error:?}"
            );
            assert!(error.is_retryable());
        }
    }
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), MAX as usize);
    assert_eq!(store.count_active().await.unwrap(), MAX);

    // A place that is given back can be taken again.
    let first = answers.iter().position(Result::is_ok).unwrap();
    store.delete_workspace(rows[first].id).await.unwrap();
    store.insert_workspace(&workspace(), MAX, None).await.unwrap();
}

pub(crate) async fn a_resume_needs_a_place(store: &dyn Store) {
    let stopped = workspace_in(WorkspaceStatus::Stopped);
    let running = workspace_in(WorkspaceStatus::Ready);
    for row in [&stopped, &running] {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    let error = store.claim_resume(stopped.id, 1).await.unwrap_err();
    assert!(
        matches!(error, ClaimResumeError::LimitReached { id, active: 1, max: 1 } if id == stopped.id),
        "{error:?}"
    );
    assert!(error.is_retryable());
    assert_eq!(store.get_workspace(stopped.id).await.unwrap().as_ref(), Some(&stopped));

    let claimed = store.claim_resume(stopped.id, 2).await.unwrap();
    assert_eq!(claimed, WorkspaceRow { status: WorkspaceStatus::Resuming, ..stopped });
    assert_eq!(store.get_workspace(claimed.id).await.unwrap(), Some(claimed));
}

pub(crate) async fn only_a_stopped_workspace_can_be_claimed(store: &dyn Store) {
    for &status in WorkspaceStatus::ALL {
        let row = workspace_in(status);
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
        match store.claim_resume(row.id, NO_LIMIT).await {
            Ok(_) => assert_eq!(status, WorkspaceStatus::Stopped),
            Err(ClaimResumeError::WrongStatus { id, status: found }) => {
                assert_ne!(status, WorkspaceStatus::Stopped);
                assert_eq!((id, found), (row.id, status));
            }
            Err(other) => panic!("{status}: {other:?}"),
        }
    }
    let nobody = WorkspaceId::generate();
    let error = store.claim_resume(nobody, NO_LIMIT).await.unwrap_err();
    assert!(matches!(error, ClaimResumeError::NotFound { id } if id == nobody), "{error:?}");
}

pub(crate) async fn of_many_claims_one_wins(store: &dyn Store) {
    let row = workspace_in(WorkspaceStatus::Stopped);
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let answers = join_all((0..20).map(|_| store.claim_resume(row.id, NO_LIMIT))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
}

pub(crate) async fn an_update_cannot_take_a_place(store: &dyn Store) {
    for &from in WorkspaceStatus::ALL {
        for &to in WorkspaceStatus::ALL {
            let row = workspace_in(from);
            store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
            let answer = store.update_workspace(row.id, WorkspaceUpdate::to_status(to)).await;
            if to.counts_as_active() && !from.counts_as_active() {
                let error = answer.unwrap_err();
                assert!(
                    matches!(error, UpdateWorkspaceError::PlaceNotClaimed { id, .. } if id == row.id),
                    "{from} to {to}: {error:?}"
                );
                assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
            } else {
                assert_eq!(answer.unwrap().status, to);
            }
        }
    }
}

pub(crate) async fn creates_and_resumes_share_the_places(store: &dyn Store) {
    const MAX: u32 = 4;
    let stopped: Vec<_> = (0..10).map(|_| workspace_in(WorkspaceStatus::Stopped)).collect();
    for row in &stopped {
        store.insert_workspace(row, MAX, None).await.unwrap();
    }
    let new: Vec<_> = (0..10).map(|_| workspace()).collect();
    let (inserts, claims) = join(
        join_all(new.iter().map(|row| store.insert_workspace(row, MAX, None))),
        join_all(stopped.iter().map(|row| store.claim_resume(row.id, MAX))),
    )
    .await;
    let given = inserts.iter().filter(|answer| answer.is_ok()).count()
        + claims.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(given, MAX as usize);
    assert_eq!(store.count_active().await.unwrap(), MAX);
}
