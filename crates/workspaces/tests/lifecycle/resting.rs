//! Sandboxes that stand still until somebody comes: members of pools, and what nobody uses where an administrator
//! wants that.

use std::sync::Arc;
use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::fake::{FakeProvider, Fault};
use emergent_provider::{ObservedState, Operation, WorkspaceProvider};
use emergent_types::{IsolationLevel, ProviderKind, StopMode, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{NewWorkspace, Options, PoolSpec};

use crate::setup::{Installation, eventually};

async fn start(adjust: impl FnOnce(&mut Options)) -> Installation {
    let provider = Arc::new(FakeProvider::new(ProviderKind::Local, IsolationLevel::Container));
    provider.allow_suspension();
    Installation::start_among(&[provider], adjust).await
}

fn pooled(options: &mut Options) {
    options.pools = vec![PoolSpec::of_defaults(2)];
    options.pool_awake = 0;
    options.pool_interval = Duration::from_millis(50);
}

fn pausing(options: &mut Options) {
    options.idle_pause = Some(Duration::from_millis(300));
}

impl Installation {
    async fn seen(&self, id: WorkspaceId) -> Option<ObservedState> {
        let listed = self.provider.list().await.unwrap();
        listed.into_iter().find(|seen| seen.id == id).map(|seen| seen.state)
    }

    async fn until_resting(&self, id: WorkspaceId) {
        eventually(&format!("{id} stands still"), || async {
            self.seen(id).await == Some(ObservedState::Suspended)
        })
        .await;
    }

    async fn until_members_rest(&self, count: u32) {
        eventually(&format!("{count} members stand still"), || async {
            let pool = &self.handle().pools().pools[0];
            (pool.ready, pool.resting) == (count, count)
        })
        .await;
    }
}

/// Proves: LIFE-04
#[tokio::test]
async fn members_rest_until_they_are_handed_out() {
    let installation = start(pooled).await;
    installation.until_members_rest(2).await;
    // Nothing that looks after sandboxes takes them for lost.
    tokio::time::sleep(Duration::from_secs(1)).await;
    installation.until_members_rest(2).await;
    let clock = std::time::Instant::now();
    let made = installation.create().await;
    assert!(clock.elapsed() < Duration::from_millis(500), "{:?}", clock.elapsed());
    assert_eq!(installation.handle().pools().hits, 1);
    assert_eq!(installation.seen(made.id).await, Some(ObservedState::Running));
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
    installation.until_members_rest(2).await;
}

/// Whoever comes does not wait for it, unless others have come just before.
#[tokio::test]
async fn the_next_in_line_is_awake() {
    let installation = start(|options| {
        pooled(options);
        options.pools = vec![PoolSpec::of_defaults(3)];
        options.pool_awake = 1;
    })
    .await;
    let all_but_one_rest = async || {
        eventually("all but one stand still", || async {
            let pool = &installation.handle().pools().pools[0];
            (pool.ready, pool.resting) == (3, 2)
        })
        .await;
    };
    for round in 0..3 {
        all_but_one_rest().await;
        let members = installation.provider.list().await.unwrap();
        let awake = members.iter().find(|member| member.state == ObservedState::Running).unwrap();
        let made = installation.create().await;
        assert_eq!((made.id, installation.handle().pools().hits), (awake.id, round + 1));
        assert_eq!(installation.sh(made.id, "echo up").await, "up");
        installation.handle().destroy(made.id).await.unwrap();
    }
}

#[tokio::test]
async fn a_member_that_does_not_go_on_is_not_handed_out() {
    let installation = start(pooled).await;
    installation.until_members_rest(2).await;
    installation.provider.plan(Operation::Wake, Fault::Fail("no"));
    let made = installation.create().await;
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
    assert_eq!(installation.handle().pools().hits, 1, "the other one");
    for member in installation.provider.list().await.unwrap().iter().filter(|seen| seen.id != made.id) {
        installation.provider.lose_sandbox(member.id).await;
    }
    let cold = installation.create().await;
    assert_eq!(installation.sh(cold.id, "echo up").await, "up");
    installation.until_members_rest(2).await;
}

/// What cannot be put to rest is there all the same.
#[tokio::test]
async fn members_that_cannot_rest_wait_awake() {
    let installation = start(|options| {
        pooled(options);
        options.pool_interval = Duration::from_secs(1);
    })
    .await;
    for _ in 0..2 {
        installation.provider.plan(Operation::Suspend, Fault::FailAfterwards("the answer was lost"));
    }
    installation.until_members_rest(2).await;
    let made = installation.create().await;
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
}

#[tokio::test]
async fn after_a_crash_resting_members_are_adopted_or_go() {
    let mut installation = start(pooled).await;
    installation.until_members_rest(2).await;
    let members = installation.provider.list().await.unwrap();
    installation.crash().await;
    installation.start_again().await;
    installation.until_members_rest(2).await;
    let made = installation.create().await;
    assert!(members.iter().any(|member| member.id == made.id), "it was there before");
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
    installation.until_members_rest(2).await;
    installation.crash().await;
    installation.options.pools = Vec::new();
    installation.start_again().await;
    eventually("only what is somebody's is left", || async {
        installation.provider.list().await.unwrap().len() == 1
    })
    .await;
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
}

#[tokio::test]
async fn a_tidy_end_leaves_no_resting_member() {
    let mut installation = start(pooled).await;
    installation.until_members_rest(2).await;
    installation.shut_down().await;
    assert_eq!(installation.provider.list().await.unwrap(), []);
}

#[tokio::test]
async fn what_nobody_uses_rests_until_the_next_call() {
    let installation = start(pausing).await;
    let id = installation.create().await.id;
    for round in 0..2 {
        installation.until_resting(id).await;
        assert_eq!(installation.status(id).await, Some(WorkspaceStatus::Ready), "nobody sees it");
        assert_eq!(installation.sh(id, &format!("echo {round} | tee file")).await, round.to_string());
        assert_eq!(installation.seen(id).await, Some(ObservedState::Running));
    }
    installation.until_resting(id).await;
    let calls = (0..8).map(|_| installation.sh(id, "cat file"));
    assert_eq!(futures::future::join_all(calls).await, ["1"; 8], "however many come at once");
    // A call that takes longer is use for as long as it takes.
    let call = installation.handle().tool(id).await.unwrap();
    let outcome = call.exec(&CommandSpec::shell("sleep 2; echo done"), ExecOptions::default()).await.unwrap();
    assert_eq!(outcome.stdout.to_text().trim_end(), "done");
}

/// What runs by itself runs on.
#[tokio::test]
async fn what_something_runs_in_does_not_rest() {
    let installation = start(pausing).await;
    let id = installation.create().await.id;
    let process = {
        let call = installation.handle().tool(id).await.unwrap();
        call.start_process(&CommandSpec::shell("sleep 1000")).await.unwrap()
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(installation.seen(id).await, Some(ObservedState::Running));
    installation.handle().tool(id).await.unwrap().signal_process(process, 9).await.unwrap();
    installation.until_resting(id).await;
}

#[tokio::test]
async fn everything_can_be_done_to_what_rests() {
    let mut installation = start(pausing).await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    let handle = installation.handle();
    installation.until_resting(id).await;
    let snapshot = handle.snapshot(id, None, None).await.unwrap().id;
    for mode in [StopMode::Memory, StopMode::Disk] {
        installation.until_resting(id).await;
        handle.stop(id, mode).await.unwrap();
        handle.resume(id).await.unwrap();
        assert_eq!(installation.sh(id, "cat file").await, "kept", "{mode}");
    }
    let copy = NewWorkspace { snapshot: Some(snapshot), ..NewWorkspace::default() };
    let copy = handle.create(copy, true).await.unwrap().id;
    assert_eq!(installation.sh(copy, "cat file").await, "kept");
    installation.until_resting(id).await;
    installation.provider.lose_sandbox(id).await;
    eventually("it is started again", || async {
        handle.get(id).await.unwrap().resume_attempts == 1
            && installation.status(id).await == Some(WorkspaceStatus::Ready)
    })
    .await;
    assert_eq!(installation.sh(id, "cat file").await, "kept");
    installation.until_resting(id).await;
    installation.provider.plan(Operation::Wake, Fault::Fail("not now"));
    drop(installation.handle().tool(id).await);
    eventually("it is looked after", || async {
        let Ok(call) = installation.handle().tool(id).await else { return false };
        call.exec(&CommandSpec::shell("cat file"), ExecOptions::default()).await.is_ok()
    })
    .await;
    // Without a control plane it goes on, so that it can end itself.
    drop(handle);
    installation.until_resting(id).await;
    installation.shut_down().await;
    assert_eq!(installation.seen(id).await, Some(ObservedState::Running));
    installation.start_again().await;
    installation.until_resting(id).await;
    installation.crash().await;
    installation.start_again().await;
    assert_eq!(installation.sh(id, "cat file").await, "kept");
    installation.until_resting(id).await;
    installation.handle().destroy(id).await.unwrap();
    assert_eq!(installation.seen(id).await, None);
}
