//! Providers that do not say what they can do, by a clock that the tests turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_orchestrator::{Demand, Orchestrator, ProviderState};
use emergent_provider::fake::FakeProvider;
use emergent_provider::{Health, ObservedSandbox, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};
use emergent_types::{
    Capabilities, ContainerType, DeploymentMode, FreeResources, IsolationLevel, NetworkMode, ProviderChoice,
    ProviderKind, WorkspaceId,
};
use tokio::time::Instant;

/// As long as anybody may wait for one provider, and a little more.
const A_FEW_SECONDS: Duration = Duration::from_secs(6);

/// Longer than a provider that did not answer is left alone.
const A_WHILE: Duration = Duration::from_secs(11);

/// The fake, which answers no question while it is silent.
struct Mute {
    fake: FakeProvider,
    is_silent: AtomicBool,
    /// Whether it tells no reasons either while it says what it can do.
    keeps_reasons: AtomicBool,
    asked: AtomicU32,
}

impl Mute {
    fn new(kind: ProviderKind, is_silent: bool) -> Arc<Self> {
        Arc::new(Self {
            fake: FakeProvider::new(kind, kind.isolation()),
            is_silent: is_silent.into(),
            keeps_reasons: false.into(),
            asked: AtomicU32::new(0),
        })
    }

    fn be_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Release);
    }

    async fn question(&self) {
        self.asked.fetch_add(1, Ordering::AcqRel);
        if self.is_silent.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl WorkspaceProvider for Mute {
    fn kind(&self) -> ProviderKind {
        self.fake.kind()
    }

    async fn capabilities(&self) -> Capabilities {
        self.question().await;
        let free = FreeResources { cpus: 2, memory: None, disk: None };
        Capabilities { free: Some(free), ..self.fake.capabilities().await }
    }

    async fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        self.question().await;
        if self.keeps_reasons.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        Some(format!("there is no way to {mode}"))
    }

    async fn health(&self) -> Health {
        self.fake.health().await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.fake.create(spec).await
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.fake.destroy(id).await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.fake.stop(id).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.fake.resume(spec).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        self.fake.connect(id).await
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        self.fake.list().await
    }
}

fn demand(min_isolation: IsolationLevel) -> Demand {
    Demand {
        container_type: ContainerType::AgentWorkspace,
        deployment_mode: DeploymentMode::SelfHosted,
        choice: ProviderChoice::Auto,
        preferred: None,
        min_isolation,
        isolation_is_named: true,
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_promised_of_a_provider_that_has_never_said_what_it_can_do() {
    let mute = Mute::new(ProviderKind::Gvisor, true);
    let other = Mute::new(ProviderKind::Local, false);
    let orchestrator = Orchestrator::start(vec![mute.clone(), other]).await;
    let started = Instant::now();
    let choice = orchestrator.first_choice(&demand(IsolationLevel::Container)).await.unwrap();
    assert!(started.elapsed() < A_FEW_SECONDS, "{:?}", started.elapsed());
    assert_eq!(choice.provider.kind(), ProviderKind::Local);
    assert_eq!(choice.passed_over[0].reason, "it does not say what it can do");
    // It may be strong enough, but nobody knows.
    assert!(orchestrator.first_choice(&demand(IsolationLevel::Gvisor)).await.is_none());

    // Everybody after the first one is told at once.
    let asked = mute.asked.load(Ordering::Acquire);
    let started = Instant::now();
    let statuses = orchestrator.statuses().await;
    let silent = orchestrator.provider(ProviderKind::Gvisor).unwrap();
    let promised = silent.capabilities().await;
    assert_eq!(silent.why_no_network(NetworkMode::Internet).await, None);
    assert_eq!((started.elapsed(), mute.asked.load(Ordering::Acquire)), (Duration::ZERO, asked));
    let unknown = ProviderState::Unhealthy("it does not say what it can do".to_owned());
    assert_eq!((&statuses[0].state, &statuses[0].capabilities), (&unknown, &None));
    assert_eq!(statuses[1].state, ProviderState::Healthy);
    assert_eq!((promised.isolation, promised.networks.len()), (IsolationLevel::Container, 0));
    assert_eq!((promised.snapshots, promised.warm_pool, promised.persistence), (false, false, None));

    // It is asked again, and used from then on.
    mute.be_silent(false);
    tokio::time::sleep(A_WHILE).await;
    let choice = orchestrator.first_choice(&demand(IsolationLevel::Gvisor)).await.unwrap();
    assert_eq!(choice.provider.kind(), ProviderKind::Gvisor);
    assert_eq!(orchestrator.statuses().await[0].state, ProviderState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_falls_silent_can_do_what_it_could() {
    let mute = Mute::new(ProviderKind::Gvisor, false);
    let orchestrator = Orchestrator::start(vec![mute.clone()]).await;
    let said = orchestrator.known_capabilities(ProviderKind::Gvisor).await.unwrap();
    assert!(said.free.is_some());
    mute.be_silent(true);
    let started = Instant::now();
    let statuses = orchestrator.statuses().await;
    assert!(started.elapsed() < A_FEW_SECONDS, "{:?}", started.elapsed());
    // What a host has left is another figure by now.
    assert_eq!(statuses[0].capabilities, Some(Capabilities { free: None, ..said.clone() }));
    assert!(orchestrator.first_choice(&demand(IsolationLevel::Gvisor)).await.is_some());
    mute.be_silent(false);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(orchestrator.known_capabilities(ProviderKind::Gvisor).await, Some(said));
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_not_offered_has_a_reason_if_that_is_told_in_time() {
    let mute = Mute::new(ProviderKind::Local, false);
    let orchestrator = Orchestrator::start(vec![mute.clone()]).await;
    for (keeps_reasons, reason) in [(false, Some("there is no way to internet".to_owned())), (true, None)] {
        mute.keeps_reasons.store(keeps_reasons, Ordering::Release);
        let started = Instant::now();
        let statuses = orchestrator.statuses().await;
        assert!(started.elapsed() < A_FEW_SECONDS, "{:?}", started.elapsed());
        let unavailable = &statuses[0].networks_unavailable;
        assert_eq!(unavailable.len(), 1, "the fake offers the other one: {unavailable:?}");
        assert_eq!((unavailable[0].network, &unavailable[0].reason), (NetworkMode::Internet, &reason));
        assert_eq!(statuses[0].state, ProviderState::Healthy, "a reason is not what it can do");
    }
}
