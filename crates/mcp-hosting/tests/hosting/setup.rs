//! An installation in a temporary folder that can be restarted.

use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{RawJson, Reply};
use emergent_mcp_hosting::{CallFailure, Handle, Options, Registration, ServerView, Service};
use emergent_orchestrator::Orchestrator;
use emergent_provider::WorkspaceProvider;
use emergent_provider::fake::FakeProvider;
use emergent_store::sqlite::SqliteStore;
use emergent_store::{SecretKey, Store, Vault};
use emergent_types::{IsolationLevel, ProviderKind, ServerHealth, WorkspaceId, WorkspaceStatus};
use serde_json::Value;

const SERVER: &str = include_str!("server.sh");

pub(crate) struct Installation {
    folder: tempfile::TempDir,
    vault: Vault,
    pub(crate) provider: Arc<FakeProvider>,
    pub(crate) options: Options,
    workspaces: Option<emergent_workspaces::Service>,
    hosting: Option<Service>,
}

/// A server that runs the script, with one word that says how it behaves.
pub(crate) fn server(name: &str, behaviour: &str) -> Registration {
    let words = ["/bin/sh", "-c", SERVER, "server", behaviour];
    Registration {
        name: Some(name.to_owned()),
        command: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        ..Registration::default()
    }
}

impl Installation {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let mut installation = Self {
            folder: tempfile::tempdir().unwrap(),
            vault: Vault::new(&SecretKey::generate().unwrap()),
            provider: Arc::new(FakeProvider::new(ProviderKind::Local, IsolationLevel::Container)),
            options,
            workspaces: None,
            hosting: None,
        };
        installation.start_again().await;
        installation
    }

    async fn open_store(&self) -> Arc<dyn Store> {
        let path = self.folder.path().join("emergent.db");
        loop {
            // The lock of a store that was just dropped may take a moment to go.
            match SqliteStore::open(&path, self.vault.clone()).await {
                Ok(store) => return Arc::new(store),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// What a control plane that is over has written down.
    pub(crate) async fn written_status(&self, id: WorkspaceId) -> WorkspaceStatus {
        self.open_store().await.get_workspace(id).await.unwrap().unwrap().status
    }

    pub(crate) async fn start_again(&mut self) {
        let store = self.open_store().await;
        let providers: Vec<Arc<dyn WorkspaceProvider>> = vec![self.provider.clone()];
        let orchestrator = Orchestrator::start(providers).await;
        let options = emergent_workspaces::Options {
            sweep_interval: Duration::from_millis(50),
            grace: Duration::from_millis(500),
            max_concurrent: 0,
            ..emergent_workspaces::Options::default()
        };
        let workspaces = emergent_workspaces::Service::start(options, store, orchestrator).await.unwrap();
        self.hosting = Some(Service::start(self.options.clone(), workspaces.handle()).await.unwrap());
        self.workspaces = Some(workspaces);
    }

    pub(crate) fn servers(&self) -> Handle {
        self.hosting.as_ref().unwrap().handle()
    }

    pub(crate) fn workspaces(&self) -> emergent_workspaces::Handle {
        self.workspaces.as_ref().unwrap().handle()
    }

    /// A tidy end of the control plane.
    pub(crate) async fn shut_down(&mut self) {
        self.shut_down_hosting().await;
        self.shut_down_workspaces().await;
    }

    pub(crate) async fn shut_down_hosting(&mut self) {
        self.hosting.take().unwrap().shutdown().await;
    }

    pub(crate) async fn shut_down_workspaces(&mut self) {
        self.workspaces.take().unwrap().shutdown(Duration::from_secs(1)).await;
    }

    /// An end in the middle of everything.
    pub(crate) async fn crash(&mut self) {
        self.hosting.take().unwrap().abandon().await;
        self.workspaces.take().unwrap().abandon().await;
    }

    pub(crate) async fn view(&self, name: &str) -> ServerView {
        self.servers().get(name).await.unwrap()
    }

    pub(crate) async fn wait_for(&self, name: &str, health: ServerHealth) -> ServerView {
        for _ in 0..1500 {
            let view = self.view(name).await;
            if view.health == health {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} is not {health}: {:?}", self.view(name).await);
    }

    /// Calls a tool and returns its text.
    pub(crate) async fn tool(&self, server: &str, tool: &str) -> Result<String, CallFailure> {
        let params = RawJson::parse(format!(r#"{{"name":"{tool}","arguments":{{}}}}"#)).unwrap();
        match self.servers().call(server, "tools/call", Some(params), None).await? {
            Reply::Result(result) => {
                let result: Value = serde_json::from_str(result.as_str()).unwrap();
                Ok(result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            }
            Reply::Error(error) => Ok(error.as_str().to_owned()),
        }
    }

    /// The same, until the program answers.
    pub(crate) async fn tool_soon(&self, server: &str, tool: &str) -> String {
        for _ in 0..500 {
            if let Ok(text) = self.tool(server, tool).await {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{server} does not answer: {:?}", self.view(server).await);
    }
}

/// Whether a process of this number is there.
pub(crate) fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 15 s: {what}");
}
