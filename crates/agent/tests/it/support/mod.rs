//! An agent to talk to, in this process or as the real binary.

mod cgroup;
mod client;
mod process;

pub(crate) use cgroup::Cgroup;
pub(crate) use client::{
    Client, Failed, KEY, connect, exec_request, failure, finish, hello, shell, text_of, write_parts,
};
pub(crate) use process::{Binary, BinaryOptions, resident_bytes};

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use emergent_agent::{Agent, Config, Ended};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

/// An agent inside this process with a workspace of its own. Everything it started is ended
/// by [`Sandbox::end`].
pub(crate) struct Sandbox {
    pub(crate) agent: Agent,
    pub(crate) serving: JoinHandle<Ended>,
    workspace: tempfile::TempDir,
    /// Where output files go.
    pub(crate) output: tempfile::TempDir,
    connections: mpsc::Sender<io::Result<UnixStream>>,
}

impl Sandbox {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub(crate) fn start_with(configure: impl FnOnce(&mut Config)) -> Self {
        let workspace = tempfile::tempdir().expect("a temporary folder");
        let output = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config::new(workspace.path(), KEY);
        config.output_folder = output.path().join("output");
        configure(&mut config);
        let agent = Agent::new(config);
        let (connections, incoming) = mpsc::channel(16);
        let serving = tokio::spawn({
            let agent = agent.clone();
            async move { agent.serve(ReceiverStream::new(incoming)).await }
        });
        Self { agent, serving, workspace, output, connections }
    }

    /// A connection that has not greeted.
    pub(crate) async fn stranger(&self) -> Client {
        let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let socket = near.try_clone().expect("a socket");
        let [near, far] = [near, far].map(|end| {
            end.set_nonblocking(true).expect("a socket");
            UnixStream::from_std(end).expect("a runtime")
        });
        self.connections.send(Ok(far)).await.expect("serving");
        Client { socket: Some(socket), ..connect(near).await }
    }

    /// A connection that has.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.stranger().await;
        client.greet().await;
        client
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    /// Leaves no process behind.
    pub(crate) async fn end(self) {
        self.agent.end_commands(Duration::ZERO).await;
    }
}

/// Waits for something that takes a moment.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Reads a file that a command is about to write.
pub(crate) async fn line_of(path: &Path) -> String {
    let mut line = String::new();
    eventually(&format!("{} is written", path.display()), || {
        line = std::fs::read_to_string(path).unwrap_or_default();
        let is_written = line.ends_with('\n');
        async move { is_written }
    })
    .await;
    line.trim().to_owned()
}
