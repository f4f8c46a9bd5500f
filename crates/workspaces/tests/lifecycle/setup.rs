//! An installation in a temporary folder that can be restarted.

use std::sync::Arc;
use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_orchestrator::{Orchestrator, Pace};
use emergent_provider::WorkspaceProvider;
use emergent_provider::fake::FakeProvider;
use emergent_store::sqlite::SqliteStore;
use emergent_store::{SecretKey, Store, Vault, WorkspaceRow};
use emergent_types::{IsolationLevel, ProviderKind, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{Failpoints, Handle, NewWorkspace, Options, Service};

pub(crate) struct Installation {
    folder: tempfile::TempDir,
    vault: Vault,
    pub(crate) provider: Arc<FakeProvider>,
    pub(crate) others: Vec<Arc<dyn WorkspaceProvider>>,
    pub(crate) options: Options,
    pub(crate) pace: Pace,
    service: Option<Service>,
    orchestrator: Option<Orchestrator>,
}

impl Installation {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options {
            sweep_interval: Duration::from_millis(50),
            reconcile_interval: Duration::from_millis(200),
            grace: Duration::from_millis(500),
            ..Options::default()
        };
        adjust(&mut options);
        let mut installation = Self {
            folder: tempfile::tempdir().unwrap(),
            vault: Vault::new(&SecretKey::generate().unwrap()),
            provider: Arc::new(FakeProvider::new(ProviderKind::Local, IsolationLevel::Container)),
            others: Vec::new(),
            options,
            pace: Pace::default(),
            service: None,
            orchestrator: None,
        };
        installation.start_again().await;
        installation
    }

    /// With these providers in place of the usual one, which are looked after often.
    pub(crate) async fn start_among(
        providers: &[Arc<FakeProvider>],
        adjust: impl FnOnce(&mut Options),
    ) -> Self {
        let mut installation = Self::start_with(adjust).await;
        installation.shut_down().await;
        let making = Duration::from_millis(500);
        installation.pace = Pace { making, check_every: Duration::from_millis(50), ..Pace::default() };
        installation.provider = providers[0].clone();
        installation.others = providers[1..].iter().map(|other| other.clone() as _).collect();
        installation.start_again().await;
        installation
    }

    /// With a provider beside the usual one.
    pub(crate) async fn start_beside(other: Arc<dyn WorkspaceProvider>) -> Self {
        let mut installation = Self::start().await;
        installation.shut_down().await;
        installation.others.push(other);
        installation.start_again().await;
        installation
    }

    pub(crate) async fn open_store(&self) -> Arc<dyn Store> {
        let path = self.folder.path().join("emergent.db");
        // The lock of a store that was just dropped may take a moment to go.
        for _ in 0..500 {
            if let Ok(store) = SqliteStore::open(&path, self.vault.clone()).await {
                return Arc::new(store);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the store does not open");
    }

    pub(crate) async fn start_again(&mut self) {
        let store = self.open_store().await;
        let mut providers: Vec<Arc<dyn WorkspaceProvider>> = vec![self.provider.clone()];
        providers.extend(self.others.iter().cloned());
        let orchestrator = Orchestrator::start_at(self.pace, providers, Vec::new()).await;
        self.orchestrator = Some(orchestrator.clone());
        self.service = Some(Service::start(self.options.clone(), store, orchestrator).await.unwrap());
    }

    /// Checks the health of every provider, which else happens every now and then.
    pub(crate) async fn check_health(&self) {
        self.orchestrator.as_ref().unwrap().check_now().await;
    }

    /// A tidy shutdown. Sandboxes stay.
    pub(crate) async fn shut_down(&mut self) {
        self.service.take().unwrap().shutdown(Duration::from_secs(1)).await;
    }

    /// An end in the middle of everything. Sandboxes stay, those that are nobody's too.
    pub(crate) async fn crash(&mut self) {
        self.service.take().unwrap().abandon().await;
    }

    /// The same, with somebody held at a place that a test has armed.
    pub(crate) async fn crash_with(&mut self, failpoints: &Failpoints) {
        self.crash().await;
        failpoints.let_fall();
    }

    /// A start that a test ends before it is done.
    pub(crate) async fn begin_start(&self) -> tokio::task::JoinHandle<()> {
        let store = self.open_store().await;
        let mut providers: Vec<Arc<dyn WorkspaceProvider>> = vec![self.provider.clone()];
        providers.extend(self.others.iter().cloned());
        let orchestrator = Orchestrator::start_at(self.pace, providers, Vec::new()).await;
        let options = self.options.clone();
        tokio::spawn(async move {
            let service = Service::start(options, store, orchestrator).await.unwrap();
            service.abandon().await;
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.service.as_ref().unwrap().handle()
    }

    pub(crate) async fn create(&self) -> WorkspaceRow {
        self.handle().create(NewWorkspace::default(), true).await.unwrap()
    }

    pub(crate) async fn sh(&self, id: WorkspaceId, command: &str) -> String {
        let call = self.handle().tool(id).await.unwrap();
        let outcome = call.exec(&CommandSpec::shell(command), ExecOptions::default()).await.unwrap();
        assert_eq!(outcome.exit.code, 0, "{outcome:?}");
        outcome.stdout.to_text().trim_end().to_owned()
    }

    pub(crate) async fn status(&self, id: WorkspaceId) -> Option<WorkspaceStatus> {
        self.handle().get(id).await.ok().map(|row| row.status)
    }

    pub(crate) async fn wait_for(&self, id: WorkspaceId, status: Option<WorkspaceStatus>) {
        eventually(&format!("{id} is {status:?}"), || async { self.status(id).await == status }).await;
    }
}

pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(15);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within 15 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
