//! Providers that make no sandboxes ahead of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_provider::fake::FakeProvider;
use emergent_provider::{Health, ObservedSandbox, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};
use emergent_types::{Capabilities, ProviderKind, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{Miss, PoolSpec};

use crate::setup::{Installation, eventually};

/// The fake, with or without sandboxes that are made ahead of time.
struct Unable {
    fake: FakeProvider,
    can_pool: AtomicBool,
}

#[async_trait]
impl WorkspaceProvider for Unable {
    fn kind(&self) -> ProviderKind {
        self.fake.kind()
    }

    async fn capabilities(&self) -> Capabilities {
        Capabilities { warm_pool: self.can_pool.load(Ordering::Acquire), ..self.fake.capabilities().await }
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

/// Stronger than the usual one, and so whoever names nothing gets one of its sandboxes.
async fn start_beside(can_pool: bool) -> (Installation, Arc<Unable>) {
    let kind = ProviderKind::Gvisor;
    let fake = FakeProvider::new(kind, kind.isolation());
    let provider = Arc::new(Unable { fake, can_pool: can_pool.into() });
    let mut installation = Installation::start().await;
    installation.shut_down().await;
    installation.others.push(provider.clone());
    installation.options.pools = vec![PoolSpec::of_defaults(2)];
    installation.options.pool_interval = Duration::from_millis(50);
    installation.start_again().await;
    (installation, provider)
}

async fn says_why(installation: &Installation) {
    eventually("the pool says why it is empty", || async {
        let trouble = installation.handle().pools().pools[0].trouble.clone();
        trouble.is_some_and(|why| why == "provider gvisor makes no sandboxes ahead of time")
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_pooled_is_not() {
    let (installation, provider) = start_beside(false).await;
    says_why(&installation).await;
    let cold = installation.create().await;
    assert_eq!((cold.status, cold.provider), (WorkspaceStatus::Ready, ProviderKind::Gvisor));
    assert_eq!(installation.sh(cold.id, "echo alive").await, "alive");
    // Some rounds of whoever looks after pools.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses.because(Miss::Provider)), (0, 1));
    assert_eq!((pools.pools[0].ready, pools.pools[0].creating), (0, 0));
    let made: Vec<WorkspaceId> = provider.list().await.unwrap().into_iter().map(|seen| seen.id).collect();
    assert_eq!(made, [cold.id], "nothing was made ahead of time");
    assert!(installation.provider.list().await.unwrap().is_empty(), "nor with another provider");
}

#[tokio::test]
async fn members_of_a_provider_that_cannot_be_pooled_any_more_go() {
    let (installation, provider) = start_beside(true).await;
    eventually("they are ready", || async { installation.handle().pools().pools[0].ready == 2 }).await;
    provider.can_pool.store(false, Ordering::Release);
    eventually("they are gone", || async { provider.list().await.unwrap().is_empty() }).await;
    says_why(&installation).await;
    installation.create().await;
    let pools = installation.handle().pools();
    assert_eq!((pools.hits, pools.misses.because(Miss::Provider)), (0, 1));
    // And come back with it.
    provider.can_pool.store(true, Ordering::Release);
    eventually("they are ready again", || async { installation.handle().pools().pools[0].ready == 2 }).await;
    eventually("nothing is wrong", || async { installation.handle().pools().pools[0].trouble.is_none() })
        .await;
}
