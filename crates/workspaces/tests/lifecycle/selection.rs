//! Several providers as one service.

use std::sync::Arc;
use std::time::Duration;

use emergent_provider::fake::{FakeProvider, Fault};
use emergent_provider::{Health, Operation, WorkspaceProvider};
use emergent_store::AttemptOutcome;
use emergent_types::{DeploymentMode, IsolationLevel, ProviderChoice, ProviderKind, StopMode};
use emergent_workspaces::{CreateError, LifecycleError, Miss, NewWorkspace, PoolSpec};

use crate::setup::{Installation, eventually};

use ProviderKind::{Docker, Firecracker, Gvisor, Local};

fn fake(kind: ProviderKind) -> Arc<FakeProvider> {
    Arc::new(FakeProvider::new(kind, kind.isolation()))
}

fn all() -> [Arc<FakeProvider>; 4] {
    [fake(Firecracker), fake(Gvisor), fake(Docker), fake(Local)]
}

fn ill(reason: &str) -> Health {
    Health::Unhealthy { reason: reason.to_owned() }
}

fn explicit(kind: ProviderKind) -> NewWorkspace {
    NewWorkspace { provider: ProviderChoice::Explicit(kind), ..NewWorkspace::default() }
}

impl Installation {
    async fn until_healthy(&self, kind: ProviderKind, healthy: bool) {
        eventually(&format!("{kind} is healthy: {healthy}"), || async {
            let views = self.handle().providers().await.unwrap();
            let seen = views.iter().find(|view| view.status.kind == kind).expect("it is listed");
            (seen.status.state == emergent_orchestrator::ProviderState::Healthy) == healthy
        })
        .await;
    }
}

/// Proves: ORCH-03, ORCH-16, MIGR-2.3
#[tokio::test]
async fn the_strongest_that_works_is_taken() {
    let installation = Installation::start_among(&all(), |_| {}).await;
    let made = installation.create().await;
    assert_eq!((made.provider, made.requested_provider), (Firecracker, ProviderChoice::Auto));
    assert_eq!(made.isolation, Some(IsolationLevel::Microvm));
}

/// What a create has left is removed as soon as that works, whichever provider it would have been with: the row
/// says that only once it is made.
#[tokio::test]
async fn what_was_never_made_waits_for_no_provider_that_is_not_there() {
    let only = fake(Gvisor);
    let installation = Installation::start_among(std::slice::from_ref(&only), |_| {}).await;
    only.plan(Operation::Create, Fault::Fail("no"));
    only.plan(Operation::Destroy, Fault::Fail("not yet"));
    let failed = installation.handle().create(NewWorkspace::default(), true).await;
    assert!(matches!(failed, Err(CreateError::NoProvider(_))), "{failed:?}");
    eventually("nothing is left of it", || async {
        let listed = installation.handle().list(Default::default(), None, 10.try_into().unwrap()).await;
        listed.unwrap().items.is_empty()
    })
    .await;
}

/// Proves: ORCH-04, ORCH-12, ORCH-14, GOAL-10, DESIGN-3.7
#[tokio::test]
async fn who_is_ill_is_left_out_and_comes_back() {
    let providers = all();
    providers[0].set_health(ill("KVM not available"));
    let installation = Installation::start_among(&providers, |_| {}).await;
    let made = installation.create().await;
    assert_eq!(made.provider, Gvisor);
    let failed = &made.attempts[0];
    assert_eq!(failed.provider, Firecracker);
    assert_eq!(failed.outcome, AttemptOutcome::Failed { reason: "KVM not available".to_owned() });
    providers[1].set_health(ill("gVisor runtime not available"));
    installation.until_healthy(Gvisor, false).await;
    assert_eq!(installation.create().await.provider, Docker);
    providers[0].set_health(Health::Healthy);
    installation.until_healthy(Firecracker, true).await;
    assert_eq!(installation.create().await.provider, Firecracker);
}

/// Proves: ORCH-06, RISK-E2B-1
#[tokio::test]
async fn managed_mode_without_a_cloud_is_like_self_hosted() {
    let installation = Installation::start_among(&all(), |_| {}).await;
    let managed = NewWorkspace { deployment_mode: Some(DeploymentMode::Managed), ..NewWorkspace::default() };
    assert_eq!(installation.handle().create(managed, true).await.unwrap().provider, Firecracker);
}

/// Proves: ORCH-08, RISK-DOWNTIME-4
#[tokio::test]
async fn who_fails_is_passed_over_and_the_step_is_recorded() {
    let providers = all();
    let installation = Installation::start_among(&providers, |_| {}).await;
    providers[0].plan(Operation::Create, Fault::Fail("no memory left"));
    let made = installation.create().await;
    assert_eq!(made.provider, Gvisor);
    let reasons: Vec<_> = made.attempts.iter().map(|attempt| (attempt.provider, &attempt.outcome)).collect();
    let [(Firecracker, AttemptOutcome::Failed { reason }), (Gvisor, AttemptOutcome::Succeeded)] = reasons[..]
    else {
        panic!("{reasons:?}")
    };
    assert!(reason.contains("no memory left"), "{reason}");
}

/// Proves: ORCH-10
#[tokio::test]
async fn an_explicit_choice_is_kept_or_fails() {
    let providers = all();
    let installation = Installation::start_among(&providers, |_| {}).await;
    providers[0].plan(Operation::Create, Fault::Fail("no memory left"));
    let failed = installation.handle().create(explicit(Firecracker), true).await.unwrap_err();
    let CreateError::NoProvider(none) = failed else { panic!("{failed}") };
    assert_eq!(none.attempts.iter().map(|attempt| attempt.provider).collect::<Vec<_>>(), [Firecracker]);
    for provider in &providers {
        assert!(provider.list().await.unwrap().is_empty(), "{}", provider.kind());
    }
    assert_eq!(installation.handle().create(explicit(Docker), true).await.unwrap().provider, Docker);
}

/// Proves: ORCH-11, DESIGN-2.5, RISK-DOWNTIME-1
#[tokio::test]
async fn when_all_fail_each_says_why() {
    let providers = all();
    let installation = Installation::start_among(&providers, |_| {}).await;
    providers[0].set_health(ill("KVM not available"));
    installation.until_healthy(Firecracker, false).await;
    for provider in &providers[1..] {
        provider.plan(Operation::Create, Fault::Fail("not today"));
    }
    let failed = installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    let CreateError::NoProvider(none) = failed else { panic!("{failed}") };
    let reasons: Vec<_> =
        none.attempts.iter().map(|attempt| (attempt.provider, attempt.reason.as_str())).collect();
    assert_eq!(
        reasons.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
        [Firecracker, Gvisor, Docker, Local]
    );
    assert!(reasons[0].1.contains("KVM not available") && reasons[3].1.contains("not today"), "{reasons:?}");
    assert!(none.retryable);
}

/// Proves: DESIGN-2.4
#[tokio::test]
async fn nothing_goes_below_the_demanded_isolation() {
    let providers = all();
    let installation = Installation::start_among(&providers, |_| {}).await;
    providers[0].plan(Operation::Create, Fault::Fail("not today"));
    providers[1].plan(Operation::Create, Fault::Fail("not today"));
    let strong = NewWorkspace { min_isolation: Some(IsolationLevel::Gvisor), ..NewWorkspace::default() };
    installation.handle().create(strong, true).await.unwrap_err();
    for provider in &providers[2..] {
        assert!(provider.list().await.unwrap().is_empty(), "{}", provider.kind());
    }
}

/// A provider that hangs is given up, and what it makes all the same is removed.
#[tokio::test]
async fn who_hangs_is_given_up() {
    let providers = all();
    let installation = Installation::start_among(&providers, |_| {}).await;
    providers[0].plan(Operation::Create, Fault::Hang);
    let made = installation.create().await;
    assert_eq!(made.provider, Gvisor);
    let AttemptOutcome::Failed { reason } = &made.attempts[0].outcome else { panic!("{:?}", made.attempts) };
    assert!(reason.contains("took longer than"), "{reason}");
    // It comes to life, and finishes what nobody waits for any more.
    let spec = emergent_provider::SandboxSpec {
        id: made.id,
        limits: made.resource_limits,
        network: made.network,
        base_image: None,
        named: emergent_provider::NamedDemands::default(),
        volumes: Vec::new(),
        agent_key: emergent_agent_client::AgentKey::derive(b"another", made.id),
    };
    providers[0].create(&spec).await.unwrap();
    eventually("it is removed", || async { providers[0].list().await.unwrap().is_empty() }).await;
    assert_eq!(installation.sh(made.id, "echo still here").await, "still here");
}

/// Proves: ORCH-18, ORCH-19, ORCH-20, RISK-POOL-4
#[tokio::test]
async fn a_pool_is_of_the_provider_that_would_be_chosen() {
    let providers = all();
    let installation = Installation::start_among(&providers, |options| {
        options.pools = vec![PoolSpec::of_defaults(1)];
        options.pool_interval = Duration::from_millis(50);
    })
    .await;
    let members = async |provider: usize| providers[provider].list().await.unwrap().len();
    // Its sandbox is there a moment before it can be had.
    eventually("it is filled", || async { installation.handle().pools().pools[0].ready == 1 }).await;
    let other = installation.handle().create(explicit(Gvisor), true).await.unwrap();
    assert_eq!(other.provider, Gvisor);
    assert_eq!(installation.handle().pools().misses.because(Miss::Provider), 1);
    // While its provider is ill its members are not handed out, and others are made.
    providers[0].set_health(ill("KVM not available"));
    installation.until_healthy(Firecracker, false).await;
    eventually("others are made", || async { members(1).await == 2 }).await;
    eventually("they can be had", || async { installation.handle().pools().pools[0].ready == 2 }).await;
    let made = installation.create().await;
    assert_eq!((made.provider, installation.handle().pools().hits), (Gvisor, 1));
    // When it is back, those are not what would be chosen.
    providers[0].set_health(Health::Healthy);
    installation.until_healthy(Firecracker, true).await;
    eventually("they are gone", || async { members(1).await == 2 && members(0).await == 1 }).await;
    assert_eq!(installation.create().await.provider, Firecracker);
    assert_eq!(installation.handle().pools().hits, 2);
}

/// A provider that is away keeps nobody from removing what is somewhere else, and nobody waiting for the news
/// that a create has failed.
#[tokio::test]
async fn a_dead_provider_holds_up_nobody_elses_end() {
    let providers = [fake(Gvisor), fake(Local)];
    let installation = Installation::start_among(&providers, |_| {}).await;
    let made = installation.handle().create(explicit(Local), true).await.unwrap();
    providers[0].plan(Operation::Destroy, Fault::Fail("the daemon is away"));
    installation.handle().destroy(made.id).await.unwrap();
    assert!(providers[1].list().await.unwrap().is_empty());

    providers[0].set_health(ill("the daemon is away"));
    installation.until_healthy(Gvisor, false).await;
    for _ in 0..3 {
        providers[0].plan(Operation::Destroy, Fault::Fail("the daemon is away"));
    }
    providers[1].plan(Operation::Create, Fault::Fail("not today"));
    let clock = std::time::Instant::now();
    let failed = installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    assert!(matches!(failed, CreateError::NoProvider(_)), "{failed}");
    assert!(clock.elapsed() < Duration::from_secs(4), "{:?}", clock.elapsed());
}

/// A server that does not find a provider keeps what it has there, for one that does.
#[tokio::test]
async fn a_provider_that_is_not_found_loses_nothing() {
    let providers = [fake(Local), fake(Gvisor)];
    let mut installation = Installation::start_among(&providers, |_| {}).await;
    let running = installation.handle().create(explicit(Gvisor), true).await.unwrap().id;
    let stopped = installation.handle().create(explicit(Gvisor), true).await.unwrap().id;
    installation.sh(stopped, "echo kept > file").await;
    installation.handle().stop(stopped, StopMode::Disk).await.unwrap();
    installation.shut_down().await;
    let others = std::mem::take(&mut installation.others);
    installation.start_again().await;
    installation.handle().resume(stopped).await.expect_err("nobody can");
    installation.handle().destroy(running).await.expect_err("nobody can tell that nothing is left");
    installation.shut_down().await;
    installation.others = others;
    installation.start_again().await;
    installation.handle().resume(stopped).await.unwrap();
    assert_eq!(installation.sh(stopped, "cat file").await, "kept");
    installation.wait_for(running, None).await;
    assert_eq!(providers[1].list().await.unwrap().len(), 1);
}

/// An administrator who knows better has it forgotten, and nothing is left once the provider is back.
#[tokio::test]
async fn what_is_with_a_provider_that_is_gone_for_good_can_be_forgotten() {
    let providers = [fake(Local), fake(Gvisor)];
    let mut installation = Installation::start_among(&providers, |_| {}).await;
    let handle = installation.handle();
    let [running, stopped, here] =
        [(); 3].map(|()| async { handle.create(explicit(Gvisor), true).await.unwrap().id });
    let (running, stopped, here) = (running.await, stopped.await, here.await);
    handle.stop(stopped, StopMode::Disk).await.unwrap();
    handle.destroy_forced(here).await.unwrap();
    assert_eq!(providers[1].list().await.unwrap().len(), 2, "whoever can remove it does");
    drop(handle);
    installation.shut_down().await;
    let others = std::mem::take(&mut installation.others);
    installation.start_again().await;
    let handle = installation.handle();
    for id in [running, stopped] {
        let refused = handle.destroy(id).await.unwrap_err();
        assert!(matches!(refused, LifecycleError::ProviderMissing { provider: Gvisor, .. }), "{refused}");
        assert!(refused.to_string().contains("force=true"), "{refused}");
        assert_eq!(handle.missing_provider(id).unwrap(), Some(Gvisor));
        handle.destroy_forced(id).await.unwrap();
        assert_eq!(installation.status(id).await, None);
    }
    drop(handle);
    installation.shut_down().await;
    installation.others = others;
    installation.start_again().await;
    eventually("orphans go", || async { providers[1].list().await.unwrap().is_empty() }).await;
}

/// Who gets a member because somebody better is ill is told so, as after a cold create.
#[tokio::test]
async fn a_member_says_who_was_passed_over() {
    let providers = [fake(Gvisor), fake(Docker)];
    providers[0].set_health(ill("gVisor runtime not available"));
    let installation = Installation::start_among(&providers, |options| {
        options.pools = vec![PoolSpec::of_defaults(1)];
        options.pool_interval = Duration::from_millis(50);
    })
    .await;
    eventually("a member is ready", || async { installation.handle().pools().pools[0].ready == 1 }).await;
    let made = installation.create().await;
    assert_eq!((installation.handle().pools().hits, made.provider), (1, Docker));
    let reason = "gVisor runtime not available".to_owned();
    let outcomes: Vec<_> = made.attempts.iter().map(|attempt| (attempt.provider, &attempt.outcome)).collect();
    assert_eq!(
        outcomes,
        [(Gvisor, &AttemptOutcome::Failed { reason }), (Docker, &AttemptOutcome::Succeeded)]
    );
}
