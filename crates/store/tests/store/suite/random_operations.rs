//! Random sequences of operations, against a model that is a map in memory.

use std::collections::BTreeMap;

use emergent_store::{
    ClaimResumeError, InsertWorkspaceError, Store, UpdateWorkspaceError, WorkspaceFilter, WorkspaceRow,
    WorkspaceUpdate,
};
use emergent_types::{ContainerType, WorkspaceId, WorkspaceStatus};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

use super::fixtures::{walk, workspace};
use crate::suite::Fresh;

const MAX_ACTIVE: u32 = 3;

#[derive(Debug, Clone)]
enum Step {
    Insert { container_type: ContainerType, status: WorkspaceStatus },
    Claim { which: Index },
    Update { which: Index, expected: Option<WorkspaceStatus>, to: WorkspaceStatus },
    Delete { which: Index },
    Walk { status: Option<WorkspaceStatus>, page_size: u32 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let status = || select(WorkspaceStatus::ALL);
    let container_type = select(ContainerType::ALL);
    prop_oneof![
        4 => (container_type, status()).prop_map(|(container_type, status)| Step::Insert { container_type, status }),
        3 => any::<Index>().prop_map(|which| Step::Claim { which }),
        4 => (any::<Index>(), proptest::option::of(status()), status())
            .prop_map(|(which, expected, to)| Step::Update { which, expected, to }),
        1 => any::<Index>().prop_map(|which| Step::Delete { which }),
        1 => (proptest::option::of(status()), 1..6_u32).prop_map(|(status, page_size)| Step::Walk { status, page_size }),
    ]
}

/// What an operation answered, as far as the model can tell.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done,
    NotFound,
    WrongStatus,
    LimitReached,
    PlaceNotClaimed,
}

/// The rules, once more and in the simplest words.
#[derive(Default)]
struct Model {
    rows: BTreeMap<WorkspaceId, (ContainerType, WorkspaceStatus)>,
}

impl Model {
    fn active(&self) -> u32 {
        self.rows.values().filter(|(container_type, status)| takes_a_place(*container_type, *status)).count()
            as u32
    }

    fn insert(&mut self, id: WorkspaceId, container_type: ContainerType, status: WorkspaceStatus) -> Answer {
        if takes_a_place(container_type, status) && self.active() >= MAX_ACTIVE {
            return Answer::LimitReached;
        }
        self.rows.insert(id, (container_type, status));
        Answer::Done
    }

    fn claim(&mut self, id: WorkspaceId) -> Answer {
        let active = self.active();
        match self.rows.get_mut(&id) {
            None => Answer::NotFound,
            Some((_, status)) if *status != WorkspaceStatus::Stopped => Answer::WrongStatus,
            Some((ContainerType::AgentWorkspace, _)) if active >= MAX_ACTIVE => Answer::LimitReached,
            Some((_, status)) => {
                *status = WorkspaceStatus::Resuming;
                Answer::Done
            }
        }
    }

    fn update(&mut self, id: WorkspaceId, expected: Option<WorkspaceStatus>, to: WorkspaceStatus) -> Answer {
        match self.rows.get_mut(&id) {
            None => Answer::NotFound,
            Some((_, status)) if expected.is_some_and(|expected| expected != *status) => Answer::WrongStatus,
            Some((kind, status)) if takes_a_place(*kind, to) && !takes_a_place(*kind, *status) => {
                Answer::PlaceNotClaimed
            }
            Some((_, status)) => {
                *status = to;
                Answer::Done
            }
        }
    }
}

fn takes_a_place(container_type: ContainerType, status: WorkspaceStatus) -> bool {
    use WorkspaceStatus::{Creating, Ready, Resuming, Stopping};
    container_type == ContainerType::AgentWorkspace && [Creating, Ready, Stopping, Resuming].contains(&status)
}

/// Runs random sequences on one store, emptied in between.
pub(crate) fn agree_with_the_model<F: Fresh>(fresh: impl AsyncFnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fresh = runtime.block_on(fresh());
    let store = fresh.store();
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let steps = proptest::collection::vec(any_step(), 1..50);
    let verdict = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(async {
            for row in store.workspaces_for_reconcile().await.unwrap() {
                store.delete_workspace(row.id).await.unwrap();
            }
            play(store, steps).await
        })
    });
    if let Err(error) = verdict {
        panic!("{error}");
    }
}

async fn play(store: &dyn Store, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    // Ids that were ever used, and one that never was.
    let mut ids = vec![WorkspaceId::generate()];
    for step in steps {
        let pick = |which: Index| ids[which.index(ids.len())];
        match step {
            Step::Insert { container_type, status } => {
                let row = WorkspaceRow { container_type, status, ..workspace() };
                ids.push(row.id);
                let answer = match store.insert_workspace(&row, MAX_ACTIVE, None).await {
                    Ok(()) => Answer::Done,
                    Err(InsertWorkspaceError::LimitReached { .. }) => Answer::LimitReached,
                    Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                prop_assert_eq!(answer, model.insert(row.id, container_type, status));
            }
            Step::Claim { which } => {
                let id = pick(which);
                let answer = match store.claim_resume(id, MAX_ACTIVE).await {
                    Ok(_) => Answer::Done,
                    Err(ClaimResumeError::NotFound { .. }) => Answer::NotFound,
                    Err(ClaimResumeError::WrongStatus { .. }) => Answer::WrongStatus,
                    Err(ClaimResumeError::LimitReached { .. }) => Answer::LimitReached,
                    Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                prop_assert_eq!(answer, model.claim(id));
            }
            Step::Update { which, expected, to } => {
                let id = pick(which);
                let update = WorkspaceUpdate { expected_status: expected, ..WorkspaceUpdate::to_status(to) };
                let answer = match store.update_workspace(id, update).await {
                    Ok(_) => Answer::Done,
                    Err(UpdateWorkspaceError::NotFound { .. }) => Answer::NotFound,
                    Err(UpdateWorkspaceError::WrongStatus { .. }) => Answer::WrongStatus,
                    Err(UpdateWorkspaceError::PlaceNotClaimed { .. }) => Answer::PlaceNotClaimed,
                    Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                prop_assert_eq!(answer, model.update(id, expected, to));
            }
            Step::Delete { which } => {
                let id = pick(which);
                let was_there = store.delete_workspace(id).await.unwrap();
                prop_assert_eq!(was_there, model.rows.remove(&id).is_some());
            }
            Step::Walk { status, page_size } => {
                let filter = WorkspaceFilter { status, ..WorkspaceFilter::default() };
                let expect: Vec<_> = model
                    .rows
                    .iter()
                    .rev()
                    .filter(|(_, (_, found))| status.is_none_or(|wanted| wanted == *found))
                    .map(|(id, _)| *id)
                    .collect();
                prop_assert_eq!(walk(store, filter, page_size).await, expect);
            }
        }
        let active = store.count_active().await.unwrap();
        prop_assert_eq!(active, model.active());
        prop_assert!(active <= MAX_ACTIVE);
    }
    let kept: BTreeMap<_, _> = store
        .workspaces_for_reconcile()
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.id, (row.container_type, row.status)))
        .collect();
    prop_assert_eq!(kept, model.rows);
    Ok(())
}
