//! A provider with a data folder of its own, commands inside its sandboxes, and a census of
//! everything that could be left on the host.

mod census;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use emergent_agent_client::AgentKey;
use emergent_provider::{NamedDemands, ObservedSandbox, ObservedState, SandboxSpec, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LocalProvider, Options};
use emergent_types::{ByteSize, Cpu, InstallationId, NetworkMode, ResourceLimits, WorkspaceId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) use census::census;

/// This crate's helper program, which is also the stand-in for the agent. By way of an open
/// file, because the way to it may be closed to an ordinary account.
pub(crate) fn program() -> PathBuf {
    static OPENED: OnceLock<File> = OnceLock::new();
    let open = || File::open(env!("CARGO_BIN_EXE_emergent-local-helper")).unwrap();
    format!("/proc/self/fd/{}", OPENED.get_or_init(open).as_raw_fd()).into()
}

/// A provider under test and what belongs to it.
pub(crate) struct Subject {
    pub(crate) provider: Arc<LocalProvider>,
    pub(crate) installation: InstallationId,
    pub(crate) data_dir: tempfile::TempDir,
}

/// A provider with nothing in it yet.
pub(crate) fn subject() -> Subject {
    // Before the folder, which is then that account's.
    crate::account::take();
    subject_in(tempfile::tempdir().unwrap())
}

/// The same in a folder that is there.
pub(crate) fn subject_in(data_dir: tempfile::TempDir) -> Subject {
    crate::account::take();
    let installation = InstallationId::generate();
    let provider = provider_in(data_dir.path().to_owned(), installation, &[]);
    Subject { provider, installation, data_dir }
}

/// A provider with one small sandbox.
pub(crate) async fn made() -> (Subject, SandboxSpec) {
    let (subject, spec) = (subject(), spec());
    subject.provider.create(&spec).await.unwrap();
    (subject, spec)
}

/// Another provider over the same data folder, as after a restart.
pub(crate) fn provider_in(
    data_dir: PathBuf,
    installation: InstallationId,
    args: &[&str],
) -> Arc<LocalProvider> {
    Arc::new(LocalProvider::new(options(data_dir, installation, args)))
}

pub(crate) fn options(data_dir: PathBuf, installation: InstallationId, args: &[&str]) -> Options {
    Options {
        data_dir,
        installation,
        agent: AgentSource::Path(program()),
        helper: HelperCommand {
            program: program(),
            args: args.iter().map(|argument| (*argument).to_owned()).collect(),
        },
    }
}

impl Subject {
    /// The same installation seen by a server that has just been started.
    pub(crate) fn restarted(&self) -> Arc<LocalProvider> {
        self.with_helper(&[])
    }

    /// The same installation with arguments of the test's own for the helper.
    pub(crate) fn with_helper(&self, args: &[&str]) -> Arc<LocalProvider> {
        Arc::new(LocalProvider::new(self.options(args)))
    }

    /// What a provider of this installation is made with.
    pub(crate) fn options(&self, args: &[&str]) -> Options {
        options(self.data_dir.path().to_owned(), self.installation, args)
    }

    pub(crate) fn state_folder(&self, id: WorkspaceId) -> PathBuf {
        self.data_dir.path().join("local").join(id.to_string())
    }

    /// What is there of the only sandbox that there is.
    pub(crate) async fn only_state(&self) -> ObservedState {
        match self.provider.list().await.unwrap()[..] {
            [ObservedSandbox { state, .. }] => state,
            ref listed => panic!("{listed:?}"),
        }
    }

    /// Removes a sandbox, and fails unless nothing at all is left.
    pub(crate) async fn remove(&self, id: WorkspaceId) {
        self.provider.destroy(id).await.unwrap();
        assert_eq!(self.provider.list().await.unwrap(), []);
        self.assert_nothing_left();
    }

    /// Fails unless nothing of this installation is left on the host.
    pub(crate) fn assert_nothing_left(&self) {
        let left = census(self.installation, self.data_dir.path());
        assert!(left.is_empty(), "left on the host: {left:#?}");
    }
}

/// A test that fails leaves nothing either.
impl Drop for Subject {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let provider = self.restarted();
        // On a thread of its own: this one may be inside a runtime.
        let removing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for sandbox in provider.list().await.unwrap_or_default() {
                    let _ = provider.destroy(sandbox.id).await;
                }
            });
        });
        let _ = removing.join();
    }
}

/// A small sandbox to be made.
pub(crate) fn spec() -> SandboxSpec {
    spec_with(ResourceLimits {
        cpu: Cpu::from_millis(1000),
        memory: ByteSize::from_mib(128),
        disk: ByteSize::from_mib(64),
    })
}

pub(crate) fn spec_with(limits: ResourceLimits) -> SandboxSpec {
    let id = WorkspaceId::generate();
    SandboxSpec {
        id,
        limits,
        network: NetworkMode::Isolated,
        base_image: None,
        named: NamedDemands::default(),
        volumes: Vec::new(),
        agent_key: AgentKey::derive(b"test", id),
    }
}

/// How a script in a sandbox ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Standard output, then standard error.
    pub(crate) text: String,
    /// As the host would put it: `exit status: 0`, `signal: 9 (SIGKILL)`.
    pub(crate) status: String,
}

impl Ran {
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, "exit status: 0", "{}", self.text);
        self.text.trim().to_owned()
    }
}

/// Runs a shell script as the sandbox's root.
pub(crate) async fn run(provider: &LocalProvider, id: WorkspaceId, script: &str) -> Ran {
    let mut stream = provider.connect(id).await.unwrap();
    stream.write_all(script.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (text, status) = answer.rsplit_once('\n').unwrap_or((&answer, "no answer"));
    Ran { text: text.to_owned(), status: status.to_owned() }
}

/// The sandbox's PID 1 as the host knows it.
pub(crate) fn init_pid(subject: &Subject, id: WorkspaceId) -> i32 {
    let record = std::fs::read(subject.state_folder(id).join("sandbox.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    record["phase"]["running"]["init"]["pid"].as_i64().unwrap() as i32
}
