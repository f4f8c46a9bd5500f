//! How often providers are looked at, by a clock that the tests turn.

use std::sync::Arc;
use std::time::Duration;

use emergent_orchestrator::{Demand, Orchestrator, ProviderState};
use emergent_provider::Health;
use emergent_provider::fake::FakeProvider;
use emergent_types::{ContainerType, DeploymentMode, IsolationLevel, ProviderChoice, ProviderKind};

fn state(orchestrator: &Orchestrator) -> ProviderState {
    orchestrator.states().into_iter().next().expect("there is one provider").1
}

/// Proves: ORCH-13
#[tokio::test(start_paused = true)]
async fn health_is_checked_every_thirty_seconds_and_kept_in_between() {
    let provider = Arc::new(FakeProvider::new(ProviderKind::Local, ProviderKind::Local.isolation()));
    let orchestrator = Orchestrator::start(vec![provider.clone()]).await;
    let watching = {
        let orchestrator = orchestrator.clone();
        tokio::spawn(async move { orchestrator.watch_health().await })
    };
    let ill = ProviderState::Unhealthy("the disk is gone".to_owned());
    // Time passes only while everybody waits, so half a second is the whole error.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..3 {
        provider.set_health(Health::Unhealthy { reason: "the disk is gone".to_owned() });
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(state(&orchestrator), ProviderState::Healthy, "what was found is kept");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(state(&orchestrator), ill);
        provider.set_health(Health::Healthy);
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(state(&orchestrator), ill, "nobody has looked again");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(state(&orchestrator), ProviderState::Healthy);
    }
    watching.abort();
}

/// A provider that does not come to an end with its first check does not hold up a start, and whoever wants a
/// sandbox does not get a weaker one for it.
#[tokio::test(start_paused = true)]
async fn a_start_does_not_wait_for_ever_and_yet_nobody_gets_less() {
    let slow = Arc::new(FakeProvider::new(ProviderKind::Gvisor, ProviderKind::Gvisor.isolation()));
    let quick = Arc::new(FakeProvider::new(ProviderKind::Local, ProviderKind::Local.isolation()));
    slow.hold_health_checks(true);
    let started = tokio::time::Instant::now();
    let orchestrator = Orchestrator::start(vec![slow.clone(), quick]).await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let statuses = orchestrator.statuses().await;
    assert_eq!((statuses[0].state.as_str(), statuses[0].last_check_at), ("unhealthy", None));
    assert_eq!(statuses[1].state, ProviderState::Healthy);
    let demand = Demand {
        container_type: ContainerType::AgentWorkspace,
        deployment_mode: DeploymentMode::SelfHosted,
        choice: ProviderChoice::Auto,
        preferred: None,
        min_isolation: IsolationLevel::Container,
        isolation_is_named: false,
    };
    let waiting = {
        let (orchestrator, demand) = (orchestrator.clone(), demand.clone());
        tokio::spawn(
            async move { orchestrator.first_choice(&demand).await.map(|choice| choice.provider.kind()) },
        )
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    slow.hold_health_checks(false);
    assert_eq!(waiting.await.unwrap(), Some(ProviderKind::Gvisor));
}
