//! What is shown of providers.

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_orchestrator::Orchestrator;
use emergent_provider::fake::FakeProvider;
use emergent_provider::{Health, ObservedSandbox, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};
use emergent_types::{Capabilities, NetworkMode, ProviderKind, WorkspaceId};
use emergent_workspaces::Service;
use serde_json::json;

use super::*;

/// The fake, with a reason for having no network.
struct Reasoning {
    fake: FakeProvider,
    reason: Option<&'static str>,
}

#[async_trait]
impl WorkspaceProvider for Reasoning {
    fn kind(&self) -> ProviderKind {
        self.fake.kind()
    }

    async fn capabilities(&self) -> Capabilities {
        self.fake.capabilities().await
    }

    async fn why_no_network(&self, _mode: NetworkMode) -> Option<String> {
        self.reason.map(str::to_owned)
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

#[tokio::test]
async fn a_network_that_is_not_offered_is_shown_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let store = open_store(&folder).await;
    let token = BearerToken::from(ADMIN.to_owned());
    store.insert_token(&known(TokenKind::Admin, &token), None).await.unwrap();
    let reasoning = |kind: ProviderKind, reason| -> Arc<dyn WorkspaceProvider> {
        Arc::new(Reasoning { fake: FakeProvider::new(kind, kind.isolation()), reason })
    };
    let told = "the rules were refused";
    let providers = vec![reasoning(ProviderKind::Gvisor, Some(told)), reasoning(ProviderKind::Local, None)];
    let orchestrator = Orchestrator::start(providers).await;
    let workspaces = Service::start(Default::default(), Arc::clone(&store), orchestrator).await.unwrap();
    let server = Server::around(store, Some(workspaces.handle()), folder);

    let (status, _, body) = server.send_as_admin("GET", "/api/v1/agent/workspaces/providers").await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, StatusCode::OK, "{body}");
    for (number, reason) in [(0, json!(told)), (1, json!(null))] {
        let shown = &body["providers"][number]["capabilities"];
        assert_eq!(shown["networks"], json!(["isolated"]), "{shown}");
        assert_eq!(shown["networks_unavailable"], json!([{"network": "internet", "reason": reason}]));
        // Whoever knows nothing of reasons reads the rest as ever.
        let known: Capabilities = serde_json::from_value(shown.clone()).unwrap();
        assert_eq!(known.networks, [NetworkMode::Isolated]);
    }
    workspaces.shutdown(std::time::Duration::ZERO).await;
}
