//! Sandboxes that are made before anybody asks for them.

use std::collections::HashSet;
use std::time::Duration;

use emergent_provider::fake::Fault;
use emergent_provider::{Health, Operation, WorkspaceProvider};
use emergent_store::{Environment, WorkspaceFilter};
use emergent_types::{ByteSize, ResourceLimits, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{CreateError, Miss, NewWorkspace, Options, PoolSpec, RequestedLimits};

use crate::setup::{Installation, eventually};

fn pooled(size: u32) -> impl FnOnce(&mut Options) {
    move |options| {
        options.pools = vec![PoolSpec::of_defaults(size)];
        options.pool_interval = Duration::from_millis(50);
    }
}

/// Members of little memory, which whoever names nothing wants more of.
fn pooled_small(options: &mut Options) {
    pooled(1)(options);
    options.pools[0].shape.limits.memory = Some(ByteSize::from_mib(64));
}

impl Installation {
    async fn until_ready(&self, ready: u32) {
        eventually(&format!("{ready} members are ready"), || async {
            let pool = &self.handle().pools().pools[0];
            pool.ready == ready && pool.creating == 0
        })
        .await;
    }

    async fn sandboxes(&self) -> HashSet<WorkspaceId> {
        self.provider.list().await.unwrap().into_iter().map(|seen| seen.id).collect()
    }
}

/// Proves: LIFE-03, LIFE-19, LIFE-20, TRADE-SPEED-3
#[tokio::test]
async fn a_create_takes_a_member_and_another_is_made() {
    let installation = Installation::start_with(pooled(2)).await;
    installation.until_ready(2).await;
    let members = installation.sandboxes().await;
    let new = NewWorkspace {
        environment: Environment::from_iter([("COLOUR".to_owned(), "green".to_owned())]),
        ..NewWorkspace::default()
    };
    let made = installation.handle().create(new, true).await.unwrap();
    assert!(members.contains(&made.id), "it was there before");
    assert_eq!((made.status, made.warm_pool), (WorkspaceStatus::Ready, None));
    assert_eq!(installation.sh(made.id, "echo $COLOUR").await, "green");
    installation.until_ready(2).await;
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses), (1, Default::default()));
    assert!(pools.claim_ms.is_some());
    assert_eq!(installation.sandboxes().await.len(), 3);
}

/// Proves: LIFE-04
#[tokio::test]
async fn an_empty_pool_is_a_miss_and_a_cold_start() {
    let installation = Installation::start_with(pooled(1)).await;
    installation.until_ready(1).await;
    installation.provider.plan(Operation::Create, Fault::Delay(Duration::from_millis(300)));
    installation.create().await;
    let cold = installation.create().await;
    assert_eq!(cold.status, WorkspaceStatus::Ready);
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses.because(Miss::Empty)), (1, 1));
}

/// However large: a member that is ready makes room for the next, and nobody waits for the keeper's rounds.
/// Proves: LIFE-21
#[tokio::test]
async fn a_pool_is_filled_as_fast_as_sandboxes_are_made() {
    let installation =
        Installation::start_with(|options| options.pools = vec![PoolSpec::of_defaults(0)]).await;
    let interval = installation.options.pool_interval;
    assert!(interval >= Duration::from_secs(5), "rounds are far apart: {interval:?}");
    let clock = std::time::Instant::now();
    installation.handle().set_pool_size(24).await.unwrap();
    installation.until_ready(24).await;
    assert!(clock.elapsed() < interval * 2, "filled in {:?}", clock.elapsed());
}

/// Of several pools, the one that would have served a request is the reason why none did.
#[tokio::test]
async fn what_waits_in_another_pool_does_not_hide_that_one_is_empty() {
    let other = RequestedLimits { disk: Some(ByteSize::from_mib(64)), ..RequestedLimits::default() };
    let installation = Installation::start_with(|options| {
        pooled(1)(options);
        let shape = NewWorkspace { limits: other, ..NewWorkspace::default() };
        options.pools.push(PoolSpec { name: "small".to_owned(), size: 1, shape });
    })
    .await;
    eventually("both are full", || async {
        installation.handle().pools().pools.iter().all(|pool| pool.ready == 1)
    })
    .await;
    installation.provider.plan(Operation::Create, Fault::Delay(Duration::from_millis(300)));
    installation.create().await;
    installation.create().await;
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses.because(Miss::Empty), pools.misses.because(Miss::Shape)), (1, 1, 0));
}

/// Limits that nobody can have cost no member.
#[tokio::test]
async fn who_is_to_be_refused_takes_no_member() {
    let installation = Installation::start_with(pooled(1)).await;
    installation.until_ready(1).await;
    let members = installation.sandboxes().await;
    let least = ResourceLimits::LEAST_MEMORY;
    let tiny = RequestedLimits {
        memory: Some(ByteSize::from_bytes(least.bytes() - 1)),
        ..RequestedLimits::default()
    };
    let new = NewWorkspace { limits: tiny, ..NewWorkspace::default() };
    let made = installation.handle().create(new, true).await;
    assert!(made.is_ok_and(|row| !members.contains(&row.id)), "the provider decides, and not on a member");
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses.because(Miss::Shape), pools.pools[0].ready), (0, 1, 1));
}

#[tokio::test]
async fn who_asks_for_something_else_is_served_cold() {
    let installation = Installation::start_with(pooled(1)).await;
    installation.until_ready(1).await;
    let members = installation.sandboxes().await;
    let smaller = RequestedLimits { disk: Some(ByteSize::from_mib(64)), ..RequestedLimits::default() };
    for (new, miss) in [
        (NewWorkspace { warm_start: false, ..NewWorkspace::default() }, Miss::Disabled),
        (NewWorkspace { limits: smaller, ..NewWorkspace::default() }, Miss::Shape),
    ] {
        let made = installation.handle().create(new, true).await.unwrap();
        assert!(!members.contains(&made.id));
        assert_eq!(installation.handle().pools().misses.because(miss), 1, "{miss:?}");
    }
    assert_eq!(installation.handle().pools().hits, 0);
}

/// Limits that can be adjusted are those of the request when somebody has it, and the others must be the same.
#[tokio::test]
async fn a_member_is_given_the_limits_that_were_asked_for() {
    let mut installation = Installation::start_with(pooled_small).await;
    installation.until_ready(1).await;
    let member = *installation.sandboxes().await.iter().next().unwrap();
    let wanted = ResourceLimits::WORKSPACE_DEFAULT;
    assert!(installation.provider.limits_of(member).await.unwrap().memory < wanted.memory);
    let made = installation.create().await;
    assert_eq!((made.id, made.resource_limits), (member, wanted));
    assert_eq!(installation.provider.limits_of(member).await, Some(wanted));
    installation.until_ready(1).await;
    let smaller = RequestedLimits { disk: Some(ByteSize::from_mib(64)), ..RequestedLimits::default() };
    let new = NewWorkspace { limits: smaller, ..NewWorkspace::default() };
    installation.handle().create(new, true).await.unwrap();
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses.because(Miss::Shape)), (1, 1), "a disk is as large as it was made");
    installation.crash().await;
    installation.start_again().await;
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
    assert_eq!(installation.provider.limits_of(made.id).await, Some(wanted));
}

/// Whether nothing was adjusted, or only the answer was lost.
#[tokio::test]
async fn a_member_that_cannot_be_adjusted_is_made_anew() {
    for (number, fault) in [Fault::Fail("no"), Fault::FailAfterwards("no answer")].into_iter().enumerate() {
        let installation = Installation::start_with(pooled_small).await;
        installation.until_ready(1).await;
        installation.provider.plan(Operation::Adjust, fault);
        let made = installation.handle().create(NewWorkspace::default(), number == 0).await.unwrap();
        installation.wait_for(made.id, Some(WorkspaceStatus::Ready)).await;
        let wanted = Some(ResourceLimits::WORKSPACE_DEFAULT);
        assert_eq!(installation.provider.limits_of(made.id).await, wanted, "{number}");
        assert_eq!(installation.sh(made.id, "echo alive").await, "alive");
        let pools = installation.handle().pools();
        assert_eq!((pools.hits, pools.misses.because(Miss::Shape)), (0, 1), "{number}");
        installation.until_ready(1).await;
        assert_eq!(installation.sandboxes().await.len(), 2, "nothing is left of it");
    }
}

/// A create would find it as it is.
#[tokio::test]
async fn a_member_that_can_neither_be_adjusted_nor_removed_is_nobodys() {
    let installation = Installation::start_with(pooled_small).await;
    installation.until_ready(1).await;
    let member = *installation.sandboxes().await.iter().next().unwrap();
    installation.provider.plan(Operation::Adjust, Fault::Fail("no"));
    installation.provider.plan(Operation::Destroy, Fault::Fail("not now"));
    let refused = installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    assert!(matches!(refused, CreateError::NoProvider(_)), "{refused}");
    eventually("it is gone", || async { !installation.sandboxes().await.contains(&member) }).await;
    assert!(installation.handle().get(member).await.is_err());
    installation.until_ready(1).await;
    assert_eq!(installation.create().await.resource_limits, ResourceLimits::WORKSPACE_DEFAULT);
}

#[tokio::test]
async fn nobody_finds_a_member() {
    let installation = Installation::start_with(pooled(1)).await;
    installation.until_ready(1).await;
    let member = *installation.sandboxes().await.iter().next().unwrap();
    let handle = installation.handle();
    assert!(handle.get(member).await.is_err());
    assert!(handle.tool(member).await.is_err());
    assert!(handle.destroy(member).await.is_err());
    assert!(handle.owner(member).is_none());
    assert!(handle.statuses().is_empty());
    let page = handle.list(WorkspaceFilter::default(), None, 10.try_into().unwrap()).await.unwrap();
    assert_eq!(page.items, []);
    assert_eq!(handle.providers().await.unwrap()[0].active_workspaces, 0);
}

/// Proves: LIFE-21
#[tokio::test]
async fn the_size_is_changed_and_kept_over_restarts() {
    let mut installation = Installation::start_with(pooled(1)).await;
    installation.until_ready(1).await;
    for size in [3, 0, 2] {
        installation.handle().set_pool_size(size).await.unwrap();
        installation.until_ready(size).await;
        eventually("the rest is gone", || async { installation.sandboxes().await.len() == size as usize })
            .await;
    }
    installation.shut_down().await;
    installation.start_again().await;
    installation.until_ready(2).await;
    // Whoever changes the configuration means it.
    installation.shut_down().await;
    installation.options.pools = vec![PoolSpec::of_defaults(3)];
    installation.start_again().await;
    installation.until_ready(3).await;
}

#[tokio::test]
async fn a_tidy_end_leaves_no_member() {
    let mut installation = Installation::start_with(pooled(3)).await;
    installation.until_ready(3).await;
    let kept = installation.create().await;
    installation.shut_down().await;
    assert_eq!(installation.sandboxes().await, HashSet::from([kept.id]));
    let store = installation.open_store().await;
    assert_eq!(store.workspaces_for_reconcile().await.unwrap().len(), 1);
}

#[tokio::test]
async fn after_a_crash_members_are_adopted() {
    let mut installation = Installation::start_with(pooled(2)).await;
    installation.until_ready(2).await;
    let members = installation.sandboxes().await;
    installation.crash().await;
    installation.start_again().await;
    installation.until_ready(2).await;
    assert_eq!(installation.sandboxes().await, members);
    let made = installation.create().await;
    assert!(members.contains(&made.id));
    assert_eq!(installation.sh(made.id, "echo up").await, "up");
}

#[tokio::test]
async fn after_a_crash_nothing_stays_of_a_pool_that_is_not_wanted_any_more() {
    let mut installation = Installation::start_with(pooled(2)).await;
    installation.until_ready(2).await;
    installation.crash().await;
    installation.options.pools = Vec::new();
    installation.start_again().await;
    eventually("they are gone", || async { installation.sandboxes().await.is_empty() }).await;
    let made = installation.create().await;
    assert_eq!(installation.handle().pools().misses.because(Miss::Disabled), 1);
    installation.handle().destroy(made.id).await.unwrap();
}

/// However members die, nobody is given a dead one.
#[tokio::test]
async fn dead_members_are_not_handed_out() {
    let installation = Installation::start_with(pooled(4)).await;
    installation.until_ready(4).await;
    for (number, member) in installation.sandboxes().await.into_iter().enumerate() {
        match number % 2 {
            0 => installation.provider.lose_sandbox(member).await,
            _ => installation.provider.lose_everything(member).await,
        }
    }
    for _ in 0..4 {
        let made = installation.create().await;
        assert_eq!(installation.sh(made.id, "echo alive").await, "alive");
    }
    installation.until_ready(4).await;
    assert_eq!(installation.sandboxes().await.len(), 8);
}

#[tokio::test]
async fn a_member_counts_from_when_it_is_somebodys() {
    let installation = Installation::start_with(|options| {
        pooled(2)(options);
        options.max_concurrent = 1;
    })
    .await;
    installation.until_ready(2).await;
    let made = installation.create().await;
    let full = installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    assert!(matches!(full, CreateError::LimitReached { active: 1, max: 1 }), "{full}");
    installation.handle().destroy(made.id).await.unwrap();
    installation.until_ready(2).await;
    installation.create().await;
    assert_eq!(installation.handle().pools().hits, 2);
}

/// A provider that cannot make any is not asked for ever, and asked again when it may.
#[tokio::test]
async fn a_pool_that_cannot_be_filled_says_why() {
    let installation = Installation::start_with(pooled(0)).await;
    for _ in 0..2 {
        installation.provider.plan(Operation::Create, Fault::Fail("no more sandboxes today"));
    }
    installation.handle().set_pool_size(1).await.unwrap();
    eventually("it says why", || async {
        let pools = installation.handle().pools();
        pools.pools[0].trouble.as_ref().is_some_and(|why| why.contains("no more sandboxes today"))
    })
    .await;
    installation.until_ready(1).await;
    assert_eq!(installation.handle().pools().pools[0].trouble, None);
}

#[tokio::test]
async fn an_unhealthy_provider_is_not_asked_for_members() {
    let mut installation = Installation::start_with(pooled(0)).await;
    installation.shut_down().await;
    installation.provider.set_health(Health::Unhealthy { reason: "ill".to_owned() });
    installation.options.pools = vec![PoolSpec::of_defaults(2)];
    installation.start_again().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(installation.sandboxes().await.is_empty());
    assert_eq!(installation.handle().pools().pools[0].trouble, None);
}

/// Many at once, while members die under them: each gets one of its own, and alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_member_is_handed_out_twice() {
    let installation = Installation::start_with(|options| {
        pooled(8)(options);
        options.max_concurrent = 10_000;
    })
    .await;
    installation.until_ready(8).await;
    let mut seen = HashSet::new();
    for round in 0..10 {
        if round % 3 == 1
            && let Some(victim) = installation.sandboxes().await.difference(&seen).next()
        {
            installation.provider.lose_sandbox(*victim).await;
        }
        let handle = installation.handle();
        let creates = (0..12).map(|_| handle.create(NewWorkspace::default(), true));
        for made in futures::future::join_all(creates).await {
            let made = made.unwrap();
            assert!(seen.insert(made.id), "{} was handed out twice", made.id);
            assert_eq!(installation.sh(made.id, "echo alive").await, "alive");
        }
    }
    let pools = installation.handle().pools();
    assert!(pools.hits >= 8, "{pools:?}");
    for id in seen {
        installation.handle().destroy(id).await.unwrap();
    }
    installation.until_ready(8).await;
    assert_eq!(installation.sandboxes().await.len(), 8);
}
