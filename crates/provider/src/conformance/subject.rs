//! Who is under test, and sandboxes that are removed whatever happens.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::{
    AgentClient, AgentDialer, AgentKey, AgentStream, CommandSpec, DialError, ExecOptions, ExecOutcome,
    Greeting,
};
use emergent_types::{ByteSize, Cpu, IsolationLevel, NetworkMode, ResourceLimits, SnapshotId, WorkspaceId};

use super::allocated::allocated_below;
use crate::{NamedDemands, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};

/// A provider under test.
pub struct Subject {
    /// The provider.
    pub provider: Arc<dyn WorkspaceProvider>,
    /// Where the workspace folder must be, as seen by commands in the sandbox; `None` where a
    /// fake cannot choose.
    pub workspace_dir: Option<String>,
    /// What sandboxes are made with unless a check says otherwise.
    pub limits: ResourceLimits,
    /// Whether root is the only account in a sandbox.
    pub one_account: bool,
    /// Where each sandbox has a folder of its own, named after its id, with its disk and everything else that it
    /// takes on the host's disks; `None` where its disk is not of the asked size.
    pub folders: Option<PathBuf>,
    reused: Mutex<Reused>,
    created: Mutex<Vec<WorkspaceId>>,
    copied: Mutex<Vec<SnapshotId>>,
    // Kept so that folders and daemons of the test live as long as the subject.
    _keep: Box<dyn std::any::Any + Send + Sync>,
}

/// The sandbox that the checks of a part share.
enum Reused {
    /// Every check makes its own.
    Never,
    /// The next one that is made is kept.
    NotYet,
    /// It waits for the next check.
    Waiting(SandboxSpec, Sandbox),
    /// The running check has it; more than one it makes itself.
    Taken(SandboxSpec, Sandbox),
}

/// One check of a part.
pub type Check = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Keys of test sandboxes derive from this.
const SECRET: &[u8] = b"conformance";

impl Subject {
    /// A subject; `keep` lives as long as it does.
    pub fn new(
        provider: Arc<dyn WorkspaceProvider>,
        workspace_dir: Option<&str>,
        keep: impl std::any::Any + Send + Sync,
    ) -> Self {
        Self {
            provider,
            workspace_dir: workspace_dir.map(str::to_owned),
            limits: ResourceLimits {
                cpu: Cpu::from_millis(2000),
                memory: ByteSize::from_mib(256),
                disk: ByteSize::from_mib(128),
            },
            one_account: false,
            folders: None,
            reused: Mutex::new(Reused::Never),
            created: Mutex::new(Vec::new()),
            copied: Mutex::new(Vec::new()),
            _keep: Box::new(keep),
        }
    }

    /// Runs one check on a runtime of its own and removes every sandbox it made, also when it
    /// fails.
    pub fn run<S, F>(
        make: impl FnOnce() -> S,
        check: impl for<'a> FnOnce(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + 'a>> + 'static,
    ) where
        S: Future<Output = F>,
        F: Into<Self>,
    {
        runtime().block_on(async {
            let subject: Self = make().await.into();
            let outcome = futures::FutureExt::catch_unwind(AssertUnwindSafe(check(&subject))).await;
            subject.remove_all().await;
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
            subject.assert_nothing_is_left().await;
        });
    }

    /// Runs checks one after the other, in one sandbox where that is all they need. One that fails does not keep
    /// the others from running, and spoils no sandbox for them.
    pub fn run_together<S, F>(make: impl FnOnce() -> S, checks: Vec<(&'static str, Check)>)
    where
        S: Future<Output = F>,
        F: Into<Self>,
    {
        runtime().block_on(async {
            let subject: Self = make().await.into();
            subject.set_reused(Reused::NotYet);
            let mut failed = Vec::new();
            for (name, check) in checks {
                eprintln!("check {name}");
                let outcome = futures::FutureExt::catch_unwind(AssertUnwindSafe(check(&subject))).await;
                if outcome.is_err() {
                    failed.push(name);
                }
                subject.tidy_reused(outcome.is_ok()).await;
            }
            subject.remove_all().await;
            assert!(failed.is_empty(), "checks that failed: {failed:?}");
            subject.assert_nothing_is_left().await;
        });
    }

    async fn assert_nothing_is_left(&self) {
        let left = self.provider.list().await.expect("list works");
        assert!(left.is_empty(), "left behind: {left:?}");
        let left = self.provider.list_snapshots().await.expect("list_snapshots works");
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    fn set_reused(&self, reused: Reused) {
        *self.reused.lock().expect("not poisoned") = reused;
    }

    /// Makes the shared sandbox what a new one is for the next check, as far as tools can tell. Where that does
    /// not work, or a check failed in it, the next one gets another.
    async fn tidy_reused(&self, usable: bool) {
        let reused = std::mem::replace(&mut *self.reused.lock().expect("not poisoned"), Reused::NotYet);
        let Reused::Taken(spec, sandbox) = reused else { return self.set_reused(reused) };
        let command = CommandSpec::shell("find . /tmp -mindepth 1 -delete 2>&1; ls -A");
        let emptied = self.client(&spec).exec(&command, ExecOptions::default()).await;
        let is_empty =
            emptied.is_ok_and(|outcome| outcome.exit.code == 0 && outcome.stdout.to_text().is_empty());
        if usable && is_empty {
            self.set_reused(Reused::Waiting(spec, sandbox));
        }
    }

    /// As whoever owns it does: what fails for the moment is tried again.
    async fn remove(&self, id: WorkspaceId) {
        for _ in 0..10 {
            match self.provider.destroy(id).await {
                Ok(()) => return,
                Err(error) => eprintln!("clean-up of {id}: {error}"),
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }

    async fn remove_all(&self) {
        let created: Vec<_> = std::mem::take(&mut *self.created.lock().expect("not poisoned"));
        for id in created {
            self.remove(id).await;
        }
        let copied: Vec<_> = std::mem::take(&mut *self.copied.lock().expect("not poisoned"));
        for id in copied {
            if let Err(error) = self.provider.delete_snapshot(id).await {
                eprintln!("clean-up of snapshot {id}: {error}");
            }
        }
    }

    /// A name for a snapshot, which will be cleaned up.
    pub fn snapshot_id(&self) -> SnapshotId {
        let id = SnapshotId::generate();
        self.copied.lock().expect("not poisoned").push(id);
        id
    }

    /// A running sandbox made from a snapshot to a specification.
    pub async fn restored_with(&self, snapshot: SnapshotId, spec: SandboxSpec) -> TestSandbox {
        let sandbox = self.provider.restore(snapshot, &spec).await.expect("restore works");
        self.answering(spec, sandbox).await
    }

    /// Whether sandboxes have a root of their own, from an image: then what is theirs may have the names of
    /// what is the host's.
    pub(crate) async fn has_own_root(&self) -> bool {
        self.provider.capabilities().await.base_image
    }

    /// Whether sandboxes have a kernel of their own, whose numbers and switches mean nothing to the host.
    pub(crate) async fn has_own_kernel(&self) -> bool {
        self.provider.capabilities().await.isolation > IsolationLevel::Container
    }

    /// How many bytes a sandbox takes on the host's disks; `None` where nobody says where to look.
    pub(crate) fn host_bytes(&self, id: WorkspaceId) -> Option<u64> {
        let folder = self.folders.as_ref()?.join(id.to_string());
        let taken = allocated_below(&folder);
        Some(taken.unwrap_or_else(|error| panic!("{}: {error}", folder.display())))
    }

    /// A specification with a new id, which will be cleaned up.
    pub fn spec(&self) -> SandboxSpec {
        let id = WorkspaceId::generate();
        self.created.lock().expect("not poisoned").push(id);
        SandboxSpec {
            id,
            limits: self.limits,
            network: NetworkMode::Isolated,
            base_image: None,
            named: NamedDemands::default(),
            volumes: Vec::new(),
            agent_key: AgentKey::derive(SECRET, id),
        }
    }

    /// A running sandbox whose agent has answered.
    pub async fn sandbox(&self) -> TestSandbox {
        let waiting = {
            let mut reused = self.reused.lock().expect("not poisoned");
            match std::mem::replace(&mut *reused, Reused::Never) {
                Reused::Waiting(spec, sandbox) => {
                    *reused = Reused::Taken(spec.clone(), sandbox.clone());
                    Some((spec, sandbox))
                }
                other => {
                    *reused = other;
                    None
                }
            }
        };
        if let Some((spec, sandbox)) = waiting {
            return self.answering(spec, sandbox).await;
        }
        let made = self.sandbox_with(self.spec()).await;
        let mut reused = self.reused.lock().expect("not poisoned");
        if matches!(*reused, Reused::NotYet) {
            *reused = Reused::Taken(made.spec.clone(), made.sandbox.clone());
        }
        made
    }

    /// A running sandbox made to a specification.
    pub async fn sandbox_with(&self, spec: SandboxSpec) -> TestSandbox {
        let sandbox = self.provider.create(&spec).await.expect("create works");
        self.answering(spec, sandbox).await
    }

    async fn answering(&self, spec: SandboxSpec, sandbox: Sandbox) -> TestSandbox {
        let client = self.client(&spec);
        client.greet().await.expect("the agent answers");
        let mut sandbox = TestSandbox { spec, sandbox, client, workspace_dir: String::new() };
        sandbox.workspace_dir = sandbox.sh("pwd").await;
        if let Some(expected) = &self.workspace_dir {
            assert_eq!(sandbox.workspace_dir, *expected, "commands start in the workspace folder");
        }
        sandbox
    }

    /// Where programs in a sandbox find a service, if it is offered.
    pub fn service_path(&self, sandbox: &TestSandbox, name: &str) -> String {
        match &self.workspace_dir {
            Some(_) => format!("/run/emergent/services/{name}"),
            None => sandbox.path(&format!(".services/{name}")),
        }
    }

    /// Resumes a sandbox; its client dials again.
    pub async fn resume(&self, sandbox: &TestSandbox) -> Sandbox {
        let resumed = self.provider.resume(&sandbox.spec).await.expect("resume works");
        sandbox.client.greet().await.expect("the agent answers after a resume");
        resumed
    }

    /// A client for a sandbox, on a connection of its own.
    pub fn client(&self, spec: &SandboxSpec) -> AgentClient {
        self.client_with_key(spec, spec.agent_key.clone())
    }

    /// A client that presents the given key.
    pub fn client_with_key(&self, spec: &SandboxSpec, key: AgentKey) -> AgentClient {
        let dialer = Arc::new(ProviderDialer { provider: self.provider.clone(), id: spec.id });
        let greeting = Greeting { key, environment: Default::default(), deadline_unix_ms: 0 };
        AgentClient::new(dialer, greeting)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

struct ProviderDialer {
    provider: Arc<dyn WorkspaceProvider>,
    id: WorkspaceId,
}

#[async_trait]
impl AgentDialer for ProviderDialer {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        self.provider
            .connect(self.id)
            .await
            .map_err(|error: ProviderError| DialError { reason: error.to_string() })
    }
}

/// A sandbox of a check.
pub struct TestSandbox {
    /// What it was made to.
    pub spec: SandboxSpec,
    /// What the provider reported.
    pub sandbox: Sandbox,
    /// Talks to its agent.
    pub client: AgentClient,
    workspace_dir: String,
}

impl TestSandbox {
    /// Its id.
    pub fn id(&self) -> WorkspaceId {
        self.spec.id
    }

    /// A path in the workspace folder.
    pub fn path(&self, relative: &str) -> String {
        format!("{}/{relative}", self.workspace_dir)
    }

    /// Runs a shell command, which must be started; its exit code is the check's to judge.
    pub async fn run(&self, command: &str) -> ExecOutcome {
        self.run_for(command, Duration::from_secs(60)).await
    }

    /// Runs a shell command with a time limit.
    pub async fn run_for(&self, command: &str, timeout: Duration) -> ExecOutcome {
        let options = ExecOptions { timeout, ..ExecOptions::default() };
        self.client
            .exec(&CommandSpec::shell(command), options)
            .await
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Runs a shell command that must succeed; answers its trimmed standard output.
    pub async fn sh(&self, command: &str) -> String {
        let outcome = self.run(command).await;
        assert_eq!(
            outcome.exit.code,
            0,
            "{command:?}\nstdout: {}\nstderr: {}",
            outcome.stdout.to_text(),
            outcome.stderr.to_text()
        );
        outcome.stdout.to_text().trim_end().to_owned()
    }
}

/// Waits until `condition` holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
