//! A server with a neighbour whose agent is as it should be, and workspaces whose agents are not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_orchestrator::Orchestrator;
use emergent_provider::fake::FakeProvider;
use emergent_provider::{Health, ObservedSandbox, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};
use emergent_types::{Capabilities, IsolationLevel, ProviderKind, WorkspaceId};
use emergent_workspaces::{NewWorkspace, Service};

use super::super::*;
use super::agent::{Behaviour, Hostile};

/// The fake, but for the agents of some of its sandboxes.
struct HostileProvider {
    fake: FakeProvider,
    /// Whether the next sandbox has one.
    is_next: AtomicBool,
    agents: Mutex<HashMap<WorkspaceId, Arc<Hostile>>>,
}

impl HostileProvider {
    fn agent(&self, id: WorkspaceId) -> Option<Arc<Hostile>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

#[async_trait]
impl WorkspaceProvider for HostileProvider {
    fn kind(&self) -> ProviderKind {
        self.fake.kind()
    }

    async fn capabilities(&self) -> Capabilities {
        self.fake.capabilities().await
    }

    async fn health(&self) -> Health {
        self.fake.health().await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        if self.is_next.swap(false, Ordering::AcqRel) {
            let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
            agents.insert(spec.id, Hostile::new());
        }
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
        match self.agent(id) {
            Some(agent) => Ok(agent.connect()),
            None => self.fake.connect(id).await,
        }
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        self.fake.list().await
    }
}

/// The server and the neighbour.
pub(super) struct Stage {
    server: Server,
    provider: Arc<HostileProvider>,
    workspaces: Service,
    neighbour: WorkspaceId,
}

impl Stage {
    pub(super) async fn set() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open_store(&folder).await;
        let token = BearerToken::from(ADMIN.to_owned());
        store.insert_token(&known(TokenKind::Admin, &token), None).await.unwrap();
        let provider = Arc::new(HostileProvider {
            fake: FakeProvider::new(ProviderKind::Local, IsolationLevel::Container),
            is_next: AtomicBool::new(false),
            agents: Mutex::default(),
        });
        let shared: Arc<dyn WorkspaceProvider> = provider.clone();
        let orchestrator = Orchestrator::start(vec![shared]).await;
        let options = emergent_workspaces::Options { max_concurrent: 100, ..Default::default() };
        let workspaces = Service::start(options, Arc::clone(&store), orchestrator).await.unwrap();
        let server = Server::around(store, Some(workspaces.handle()), folder);
        let neighbour = workspaces.handle().create(NewWorkspace::default(), true).await.unwrap().id;
        let stage = Self { server, provider, workspaces, neighbour };
        stage.neighbour_is_served().await;
        stage
    }

    pub(super) fn router(&self) -> &Router {
        &self.server.router
    }

    /// A workspace whose agent greets, and then does this.
    pub(super) async fn workspace(&self, behaviour: Behaviour) -> (WorkspaceId, Arc<Hostile>) {
        self.provider.is_next.store(true, Ordering::Release);
        let id = self.workspaces.handle().create(NewWorkspace::default(), true).await.unwrap().id;
        let agent = self.provider.agent(id).unwrap();
        agent.turn_to(behaviour);
        (id, agent)
    }

    /// A command in another workspace runs as ever.
    pub(super) async fn neighbour_is_served(&self) {
        let path = format!("/api/v1/agent/workspaces/{}/bash", self.neighbour);
        let request = Request::post(path)
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", "application/json")
            .body(Body::from(r#"{"command": "echo here"}"#))
            .unwrap();
        let answer = self.router().clone().oneshot(request);
        let answer = tokio::time::timeout(std::time::Duration::from_secs(10), answer).await.unwrap().unwrap();
        let (parts, body) = answer.into_parts();
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!((parts.status, &body["stdout"]), (StatusCode::OK, &Value::from("here\n")), "{body}");
    }

    pub(super) async fn end(self) {
        self.workspaces.shutdown(std::time::Duration::ZERO).await;
    }
}
