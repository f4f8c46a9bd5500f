//! Creating workspaces.

use std::sync::Arc;
use std::time::Duration;

use emergent_provider::fake::{FakeProvider, Fault};
use emergent_provider::{Health, Operation, WorkspaceProvider};
use emergent_types::{
    ByteSize, IsolationLevel, NetworkMode, ProviderChoice, ProviderKind, ResourceLimits, StopMode,
    WorkspaceStatus,
};
use emergent_workspaces::{CreateError, LifecycleError, NewWorkspace, ToolError};

use crate::setup::Installation;

/// Proves: LIFE-01
#[tokio::test]
async fn a_workspace_is_ready_with_defaults() {
    let installation = Installation::start().await;
    let row = installation.create().await;
    assert_eq!(row.status, WorkspaceStatus::Ready);
    assert_eq!(row.resource_limits, ResourceLimits::WORKSPACE_DEFAULT);
    assert_eq!(row.isolation, Some(IsolationLevel::Container));
    assert_eq!(row.network, NetworkMode::Isolated);
    assert!(row.warnings.iter().any(|warning| warning.contains("default network")), "{:?}", row.warnings);
    assert_eq!(installation.sh(row.id, "echo hello").await, "hello");
    assert_eq!(installation.handle().get(row.id).await.unwrap().status, WorkspaceStatus::Ready);
}

/// Proves: LIFE-05
#[tokio::test]
async fn the_limit_counts_what_runs() {
    let installation = Installation::start_with(|options| options.max_concurrent = 2).await;
    let (one, _two) = (installation.create().await, installation.create().await);
    let refused = installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    assert!(matches!(refused, CreateError::LimitReached { active: 2, max: 2 }), "{refused}");
    assert!(refused.to_string().contains("wait"), "{refused}");
    // A stopped one gives its place back, and needs one to come back.
    installation.handle().stop(one.id, StopMode::Disk).await.unwrap();
    let three = installation.create().await;
    let refused = installation.handle().resume(one.id).await.unwrap_err();
    assert!(matches!(refused, LifecycleError::LimitReached { .. }), "{refused}");
    assert_eq!(installation.status(one.id).await, Some(WorkspaceStatus::Stopped));
    installation.handle().destroy(three.id).await.unwrap();
    installation.handle().resume(one.id).await.unwrap();
}

/// Many at once for few places: exactly as many succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_for_the_last_places_has_exact_winners() {
    let installation = Installation::start_with(|options| options.max_concurrent = 3).await;
    let handle = installation.handle();
    let creates = (0..12).map(|_| {
        let handle = handle.clone();
        tokio::spawn(async move { handle.create(NewWorkspace::default(), true).await })
    });
    let mut ready = 0;
    for create in creates.collect::<Vec<_>>() {
        match create.await.unwrap() {
            Ok(_) => ready += 1,
            Err(CreateError::LimitReached { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(ready, 3);
    assert_eq!(installation.provider.list().await.unwrap().len(), 3);
}

/// Proves: ORCH-10
#[tokio::test]
async fn an_explicit_provider_does_not_fall_back() {
    let installation = Installation::start().await;
    let new = NewWorkspace {
        provider: ProviderChoice::Explicit(ProviderKind::Firecracker),
        ..NewWorkspace::default()
    };
    let refused = installation.handle().create(new, true).await.unwrap_err();
    let CreateError::NoProvider(failure) = &refused else { panic!("{refused}") };
    assert_eq!(failure.attempts.len(), 1);
    assert_eq!(failure.attempts[0].provider, ProviderKind::Firecracker);
}

/// Proves: ORCH-11
#[tokio::test]
async fn nothing_goes_below_the_demanded_isolation_and_every_provider_is_named() {
    let installation =
        Installation::start_with(|options| options.min_isolation = IsolationLevel::Gvisor).await;
    let refused = installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    let CreateError::NoProvider(failure) = &refused else { panic!("{refused}") };
    let named: Vec<_> = failure.attempts.iter().map(|attempt| attempt.provider).collect();
    assert_eq!(
        named,
        [ProviderKind::Firecracker, ProviderKind::Gvisor, ProviderKind::Docker, ProviderKind::Local]
    );
    assert!(failure.attempts[3].reason.contains("below"), "{refused}");
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// A level that a request names and nothing here has is the request's fault; where something
/// that has it does not work at the moment, it may succeed later.
#[tokio::test]
async fn a_named_isolation_that_nothing_here_has_is_refused() {
    let installation = Installation::start().await;
    let strong = |provider| NewWorkspace {
        min_isolation: Some(IsolationLevel::Gvisor),
        provider,
        ..NewWorkspace::default()
    };
    for provider in [ProviderChoice::Auto, ProviderChoice::Explicit(ProviderKind::Local)] {
        let refused = installation.handle().create(strong(provider), true).await.unwrap_err();
        assert!(matches!(refused, CreateError::NotEnforceable { field: "min_isolation", .. }), "{refused}");
    }
    // Not asked for by its level but by its name: it may be installed tomorrow.
    let absent = strong(ProviderChoice::Explicit(ProviderKind::Gvisor));
    let refused = installation.handle().create(absent, true).await.unwrap_err();
    assert!(matches!(refused, CreateError::NoProvider(_)), "{refused}");

    let sick = FakeProvider::new(ProviderKind::Gvisor, IsolationLevel::Gvisor);
    sick.set_health(Health::Unhealthy { reason: "runsc is being upgraded".to_owned() });
    let installation = Installation::start_beside(Arc::new(sick)).await;
    let refused = installation.handle().create(strong(ProviderChoice::Auto), true).await.unwrap_err();
    let CreateError::NoProvider(failure) = &refused else { panic!("{refused}") };
    assert!(failure.to_string().contains("runsc is being upgraded"), "{refused}");
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// What a request names and nobody can enforce is refused, and nothing is left.
#[tokio::test]
async fn a_named_network_that_cannot_be_enforced_is_refused() {
    let installation = Installation::start().await;
    let new = NewWorkspace { network: Some(NetworkMode::Internet), ..NewWorkspace::default() };
    let refused = installation.handle().create(new, true).await.unwrap_err();
    assert!(matches!(refused, CreateError::NotEnforceable { field: "network", .. }), "{refused}");
    let page = installation.handle().list(Default::default(), None, 10.try_into().unwrap()).await.unwrap();
    assert!(page.items.is_empty(), "a failed waiting create leaves no row");
}

/// An image that is nowhere to be had is a failed attempt where another provider serves, and else the
/// answer, whatever the others said.
#[tokio::test]
async fn a_missing_image_is_an_attempt_or_the_answer() {
    let strong = Arc::new(FakeProvider::new(ProviderKind::Gvisor, IsolationLevel::Gvisor));
    let installation = Installation::start_beside(Arc::clone(&strong) as Arc<dyn WorkspaceProvider>).await;
    let named = |min_isolation| NewWorkspace {
        base_image: Some("r.example/a:1".to_owned()),
        min_isolation,
        ..NewWorkspace::default()
    };
    strong.plan(Operation::Create, Fault::NoImage("r.example/a:1"));
    let row = installation.handle().create(named(None), true).await.unwrap();
    assert_eq!(row.provider, ProviderKind::Local);
    let attempts = format!("{:?}", row.attempts);
    assert!(attempts.contains("image_not_found") && attempts.contains("r.example/a:1"), "{attempts}");

    strong.plan(Operation::Create, Fault::NoImage("r.example/a:1"));
    let refused = installation.handle().create(named(Some(IsolationLevel::Gvisor)), true).await.unwrap_err();
    let CreateError::ImageNotFound { reference, reason } = &refused else { panic!("{refused}") };
    assert_eq!((reference.as_str(), reason.as_str()), ("r.example/a:1", "the registry does not know it"));
}

/// Without waiting, a failure stays visible until it is destroyed.
#[tokio::test]
async fn a_failed_create_without_waiting_keeps_its_reason() {
    let installation = Installation::start().await;
    installation.provider.plan(Operation::Create, Fault::Fail("no more disks"));
    let row = installation.handle().create(NewWorkspace::default(), false).await.unwrap();
    assert_eq!(row.status, WorkspaceStatus::Creating);
    installation.wait_for(row.id, Some(WorkspaceStatus::Failed)).await;
    let row = installation.handle().get(row.id).await.unwrap();
    assert!(row.error.unwrap().message.contains("no more disks"));
    assert!(matches!(installation.handle().tool(row.id).await, Err(ToolError::NotReady { .. })));
    installation.handle().destroy(row.id).await.unwrap();
    assert_eq!(installation.status(row.id).await, None);
}

/// A create whose answer was lost leaves nothing behind.
#[tokio::test]
async fn a_create_that_fails_after_its_work_leaves_nothing() {
    let installation = Installation::start().await;
    installation.provider.plan(Operation::Create, Fault::FailAfterwards("answer lost"));
    installation.handle().create(NewWorkspace::default(), true).await.unwrap_err();
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// Destroying something half made cancels the making, and whoever waited is told.
#[tokio::test]
async fn destroy_cancels_a_create() {
    let installation = Installation::start().await;
    installation.provider.plan(Operation::Create, Fault::Hang);
    let handle = installation.handle();
    let waiting = tokio::spawn(async move { handle.create(NewWorkspace::default(), true).await });
    let id = loop {
        let page =
            installation.handle().list(Default::default(), None, 10.try_into().unwrap()).await.unwrap();
        if let Some(row) = page.items.first() {
            break row.id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let refused = installation.handle().stop(id, StopMode::Disk).await.unwrap_err();
    assert!(
        matches!(refused, LifecycleError::WrongState { status: WorkspaceStatus::Creating, .. }),
        "{refused}"
    );
    installation.handle().destroy(id).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(CreateError::Destroyed { .. })));
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// A request can ask for less than the default, and gets what it asked for.
#[tokio::test]
async fn requested_limits_are_kept() {
    let installation = Installation::start().await;
    let mut new = NewWorkspace::default();
    new.limits.memory = Some(ByteSize::from_mib(64));
    let row = installation.handle().create(new, true).await.unwrap();
    assert_eq!(row.resource_limits.memory, ByteSize::from_mib(64));
    assert_eq!(row.resource_limits.disk, ResourceLimits::WORKSPACE_DEFAULT.disk);
}
