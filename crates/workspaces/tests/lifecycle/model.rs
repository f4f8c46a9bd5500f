//! Random sequences of operations, against a model that is a map in memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use emergent_provider::WorkspaceProvider;
use emergent_store::{SnapshotFilter, WorkspaceFilter};
use emergent_types::{SnapshotId, StopMode, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{CreateError, ForkError, LifecycleError, NewWorkspace, PoolSpec, ToolError};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use uuid::Uuid;

use crate::setup::{Installation, eventually};

const MAX_ACTIVE: usize = 3;

/// More than a sequence can make.
const ALL: u32 = 500;

#[derive(Debug, Clone)]
enum Step {
    Create { wait: bool, warm: bool },
    Write { which: Index, number: u8 },
    Read { which: Index },
    Stop { which: Index },
    Resume { which: Index },
    Destroy { which: Index },
    Snapshot { which: Index },
    Restore { which: Index },
    DeleteSnapshot { which: Index },
    Fork { which: Index, count: usize },
    Attach { which: Index, session: u8 },
    Detach { which: Index },
    Resize { size: u32 },
    Restart { tidily: bool },
}

fn any_step() -> impl Strategy<Value = Step> {
    let which = any::<Index>;
    prop_oneof![
        6 => (any::<bool>(), any::<bool>()).prop_map(|(wait, warm)| Step::Create { wait, warm }),
        4 => (which(), any::<u8>()).prop_map(|(which, number)| Step::Write { which, number }),
        4 => which().prop_map(|which| Step::Read { which }),
        3 => which().prop_map(|which| Step::Stop { which }),
        3 => which().prop_map(|which| Step::Resume { which }),
        3 => which().prop_map(|which| Step::Destroy { which }),
        2 => which().prop_map(|which| Step::Snapshot { which }),
        2 => which().prop_map(|which| Step::Restore { which }),
        1 => which().prop_map(|which| Step::DeleteSnapshot { which }),
        1 => (which(), 1..3_usize).prop_map(|(which, count)| Step::Fork { which, count }),
        2 => (which(), 0..3_u8).prop_map(|(which, session)| Step::Attach { which, session }),
        1 => which().prop_map(|which| Step::Detach { which }),
        1 => (0..3_u32).prop_map(|size| Step::Resize { size }),
        1 => any::<bool>().prop_map(|tidily| Step::Restart { tidily }),
    ]
}

/// What an operation answered, as far as the model can tell.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Content(Option<u8>),
    NotFound,
    WrongState,
    LimitReached,
    Attached,
}

#[derive(Debug, Clone, Default)]
struct Modelled {
    stopped: bool,
    content: Option<u8>,
    session: Option<u8>,
}

/// The rules, once more and in the simplest words.
#[derive(Default)]
struct Model {
    /// Those that are gone stay as `None`: they can still be asked for.
    workspaces: BTreeMap<WorkspaceId, Option<Modelled>>,
    snapshots: BTreeMap<SnapshotId, Option<Option<u8>>>,
}

impl Model {
    fn places(&self) -> usize {
        MAX_ACTIVE - self.workspaces.values().flatten().filter(|workspace| !workspace.stopped).count()
    }

    fn change(&mut self, id: WorkspaceId, change: impl FnOnce(&mut Modelled) -> Answer) -> Answer {
        self.workspaces.get_mut(&id).and_then(Option::as_mut).map_or(Answer::NotFound, change)
    }
}

fn session(number: u8) -> Uuid {
    Uuid::from_u128(u128::from(number) + 1)
}

fn of_create(error: &CreateError) -> Answer {
    match error {
        CreateError::LimitReached { .. } => Answer::LimitReached,
        CreateError::SnapshotNotFound { .. } => Answer::NotFound,
        other => panic!("{other}"),
    }
}

fn of_change<T>(result: Result<T, LifecycleError>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(LifecycleError::NotFound { .. }) => Answer::NotFound,
        Err(LifecycleError::WrongState { .. }) => Answer::WrongState,
        Err(LifecycleError::LimitReached { .. }) => Answer::LimitReached,
        Err(LifecycleError::Attached { .. }) => Answer::Attached,
        Err(other) => panic!("{other}"),
    }
}

fn of_tool<T>(result: Result<T, ToolError>, done: impl FnOnce(T) -> Answer) -> Answer {
    match result {
        Ok(value) => done(value),
        Err(ToolError::NotFound { .. }) => Answer::NotFound,
        Err(ToolError::NotReady { .. }) => Answer::WrongState,
        Err(other) => panic!("{other}"),
    }
}

/// One of these, those that are gone too; one that never was where there are none.
fn pick<Id: Copy + Ord, T>(of: &BTreeMap<Id, T>, which: Index, never: impl FnOnce() -> Id) -> Id {
    if of.is_empty() { never() } else { *which.get(&of.keys().copied().collect::<Vec<_>>()) }
}

async fn create(installation: &Installation, new: NewWorkspace, wait: bool) -> Result<WorkspaceId, Answer> {
    let made = installation.handle().create(new, wait).await.map_err(|error| of_create(&error))?;
    installation.wait_for(made.id, Some(WorkspaceStatus::Ready)).await;
    Ok(made.id)
}

/// Does it to the real thing and to the model, and says what both answered.
async fn play(installation: &mut Installation, model: &mut Model, step: Step) -> (Answer, Answer) {
    let workspace = |model: &Model, which| pick(&model.workspaces, which, WorkspaceId::generate);
    match step {
        Step::Create { wait, warm } => {
            let expect = if model.places() == 0 { Answer::LimitReached } else { Answer::Done };
            let new = NewWorkspace { warm_start: warm, ..NewWorkspace::default() };
            let answer = create(installation, new, wait).await.map(|id| {
                assert!(
                    model.workspaces.insert(id, Some(Modelled::default())).is_none(),
                    "{id} was used before"
                );
            });
            (answer.map_or_else(|refusal| refusal, |()| Answer::Done), expect)
        }
        Step::Write { which, number } => {
            let id = workspace(model, which);
            let written = async {
                let call = installation.handle().tool(id).await?;
                call.write_file("number", vec![number].into()).await
            };
            let answer = of_tool(written.await, |_| Answer::Done);
            let expect = model.change(id, |workspace| {
                if workspace.stopped {
                    return Answer::WrongState;
                }
                workspace.content = Some(number);
                Answer::Done
            });
            (answer, expect)
        }
        Step::Read { which } => {
            let id = workspace(model, which);
            let read = async {
                let call = installation.handle().tool(id).await?;
                match call.read_file("number", 0, 0).await {
                    Ok(mut file) => Ok(file.next().await?.and_then(|piece| piece.first().copied())),
                    Err(ToolError::Agent(_)) => Ok(None),
                    Err(error) => Err(error),
                }
            };
            let answer = of_tool(read.await, Answer::Content);
            let expect = model.change(id, |workspace| match workspace.stopped {
                true => Answer::WrongState,
                false => Answer::Content(workspace.content),
            });
            (answer, expect)
        }
        Step::Stop { which } => {
            let id = workspace(model, which);
            let answer = of_change(installation.handle().stop(id, StopMode::Disk).await);
            let expect = model.change(id, |workspace| {
                workspace.stopped = true;
                Answer::Done
            });
            (answer, expect)
        }
        Step::Resume { which } => {
            let id = workspace(model, which);
            let answer = of_change(installation.handle().resume(id).await);
            let places = model.places();
            let expect = model.change(id, |workspace| {
                if workspace.stopped && places == 0 {
                    return Answer::LimitReached;
                }
                workspace.stopped = false;
                Answer::Done
            });
            (answer, expect)
        }
        Step::Destroy { which } => {
            let id = workspace(model, which);
            let answer = of_change(installation.handle().destroy(id).await);
            let was_there = model.workspaces.get_mut(&id).and_then(Option::take).is_some();
            (answer, if was_there { Answer::Done } else { Answer::NotFound })
        }
        Step::Snapshot { which } => {
            let id = workspace(model, which);
            let taken = installation.handle().snapshot(id, None, None).await;
            let content =
                model.workspaces.get(&id).and_then(Option::as_ref).map(|workspace| workspace.content);
            let expect = if content.is_some() { Answer::Done } else { Answer::NotFound };
            let answer = match taken {
                Ok(taken) => {
                    model.snapshots.insert(taken.id, content);
                    Answer::Done
                }
                Err(emergent_workspaces::SnapshotError::Workspace(error)) => of_change::<()>(Err(error)),
                Err(other) => panic!("{other}"),
            };
            (answer, expect)
        }
        Step::Restore { which } => {
            let id = pick(&model.snapshots, which, SnapshotId::generate);
            let new = NewWorkspace { snapshot: Some(id), ..NewWorkspace::default() };
            let answer = create(installation, new, true).await;
            let content = model.snapshots.get(&id).copied().flatten();
            let expect = match content {
                None => Answer::NotFound,
                Some(_) if model.places() == 0 => Answer::LimitReached,
                Some(_) => Answer::Done,
            };
            if let (Ok(made), Some(content)) = (&answer, content) {
                model.workspaces.insert(*made, Some(Modelled { content, ..Modelled::default() }));
            }
            (answer.map_or_else(|refusal| refusal, |_| Answer::Done), expect)
        }
        Step::DeleteSnapshot { which } => {
            let id = pick(&model.snapshots, which, SnapshotId::generate);
            let answer = match installation.handle().delete_snapshot(id).await {
                Ok(()) => Answer::Done,
                Err(emergent_workspaces::SnapshotError::NotFound { .. }) => Answer::NotFound,
                Err(other) => panic!("{other}"),
            };
            let was_there = model.snapshots.get_mut(&id).and_then(Option::take).is_some();
            (answer, if was_there { Answer::Done } else { Answer::NotFound })
        }
        Step::Fork { which, count } => {
            let id = workspace(model, which);
            let origin = model.workspaces.get(&id).cloned().flatten();
            let expect = match &origin {
                None => Answer::NotFound,
                Some(_) if model.places() < count => Answer::LimitReached,
                Some(_) => Answer::Done,
            };
            let answer =
                match installation.handle().fork(id, count, None, None).await.map(|forked| forked.rows) {
                    Ok(forks) => {
                        let content = origin.and_then(|origin| origin.content);
                        for fork in forks {
                            model
                                .workspaces
                                .insert(fork.id, Some(Modelled { content, ..Modelled::default() }));
                        }
                        Answer::Done
                    }
                    Err(ForkError::Create(error)) => of_create(&error),
                    Err(ForkError::Snapshot(emergent_workspaces::SnapshotError::Workspace(error))) => {
                        of_change::<()>(Err(error))
                    }
                    Err(other) => panic!("{other}"),
                };
            (answer, expect)
        }
        Step::Attach { which, session: number } => {
            let id = workspace(model, which);
            let answer = of_change(installation.handle().attach(id, session(number)).await);
            let expect = model.change(id, |workspace| match workspace.session {
                Some(holder) if holder != number => Answer::Attached,
                _ => {
                    workspace.session = Some(number);
                    Answer::Done
                }
            });
            (answer, expect)
        }
        Step::Detach { which } => {
            let id = workspace(model, which);
            let answer = of_change(installation.handle().detach(id, None).await);
            let expect = model.change(id, |workspace| {
                workspace.session = None;
                Answer::Done
            });
            (answer, expect)
        }
        Step::Resize { size } => {
            installation.handle().set_pool_size(size).await.expect("the store works");
            (Answer::Done, Answer::Done)
        }
        Step::Restart { tidily } => {
            if tidily {
                installation.shut_down().await;
            } else {
                installation.crash().await;
            }
            installation.start_again().await;
            (Answer::Done, Answer::Done)
        }
    }
}

/// What is there is what the model has, for whoever asks and on the host.
async fn compare(installation: &Installation, model: &Model) {
    let handle = installation.handle();
    let listed = handle.list(WorkspaceFilter::default(), None, ALL.try_into().unwrap()).await.unwrap().items;
    assert_eq!(listed.len(), model.workspaces.values().flatten().count());
    for row in listed {
        let expect = model.workspaces[&row.id].as_ref().expect("it is there");
        let status = if expect.stopped { WorkspaceStatus::Stopped } else { WorkspaceStatus::Ready };
        assert_eq!((row.status, row.agent_session_id), (status, expect.session.map(session)), "{}", row.id);
    }
    let snapshots = handle.list_snapshots(SnapshotFilter::default(), None, ALL.try_into().unwrap()).await;
    assert_eq!(snapshots.unwrap().items.len(), model.snapshots.values().flatten().count());
    let copies = installation.provider.list_snapshots().await.unwrap().len();
    assert_eq!(copies, model.snapshots.values().flatten().count());
}

/// Removes everything, and looks whether that was all.
async fn clear(installation: &Installation, model: Model) {
    installation.handle().set_pool_size(0).await.expect("the store works");
    for (id, _) in model.workspaces.into_iter().filter(|(_, workspace)| workspace.is_some()) {
        installation.handle().destroy(id).await.expect("destroy works");
    }
    for (id, _) in model.snapshots.into_iter().filter(|(_, snapshot)| snapshot.is_some()) {
        installation.handle().delete_snapshot(id).await.expect("deletion works");
    }
    eventually("nothing is left", || async {
        let sandboxes: HashSet<_> =
            installation.provider.list().await.unwrap().into_iter().map(|seen| seen.id).collect();
        sandboxes.is_empty() && installation.provider.list_snapshots().await.unwrap().is_empty()
    })
    .await;
}

#[test]
fn random_sequences_agree_with_the_model() {
    let cases = if std::env::var_os("EMERGENT_TEST_LONG").is_some() { 10_000 } else { 300 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = runtime.block_on(Installation::start_with(|options| {
        options.max_concurrent = MAX_ACTIVE as u32;
        options.max_snapshots = ALL;
        options.pools = vec![PoolSpec::of_defaults(0)];
    }));
    let installation = RefCell::new(started);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let steps = proptest::collection::vec(any_step(), 1..16);
    let verdict = TestRunner::new(config).run(&steps, |steps| {
        let installation = &mut *installation.borrow_mut();
        runtime.block_on(async {
            let mut model = Model::default();
            let mut difference = None;
            for step in steps {
                let (answer, expect) = play(installation, &mut model, step.clone()).await;
                if answer != expect {
                    difference = Some(format!("{step:?} answered {answer:?}, not {expect:?}"));
                    break;
                }
            }
            if difference.is_none() {
                compare(installation, &model).await;
            }
            clear(installation, model).await;
            prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
            Ok(())
        })
    });
    if let Err(error) = verdict {
        panic!("{error}");
    }
}
