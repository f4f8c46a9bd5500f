//! One sandbox of the fake: a folder, and the real agent while it runs.

use std::io;
use std::time::Duration;

use emergent_agent::{Agent, Config};
use emergent_agent_client::AgentStream;
use emergent_types::ResourceLimits;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::gate::{Gate, Gated};
use crate::SandboxSpec;

/// How much a stream of the fake holds: little, so that flow control is felt.
const PIPE_BYTES: usize = 64 << 10;

pub(super) struct FakeSandbox {
    folder: TempDir,
    /// Where what commands print goes; not in the workspace.
    output: tempfile::TempDir,
    running: Option<Running>,
}

struct Running {
    /// What it would be limited to, if this were no fake.
    limits: ResourceLimits,
    agent: Agent,
    connections: mpsc::UnboundedSender<io::Result<Gated>>,
    gate: Gate,
    server: JoinHandle<()>,
}

impl FakeSandbox {
    pub(super) fn make() -> io::Result<Self> {
        let folder = || tempfile::Builder::new().prefix("emergent-fake-").tempdir();
        Ok(Self { folder: folder()?, output: folder()?, running: None })
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn start(&mut self, spec: &SandboxSpec) {
        if let Some(running) = &self.running {
            return running.gate.open();
        }
        let key = spec.agent_key.expose().try_into().expect("a key has its length");
        let output_folder = self.output.path().join("output");
        // In the workspace, because nothing else of a fake's file system is its own.
        let services = self.folder.path().join(".services");
        let agent = Agent::new(Config { output_folder, services, ..Config::new(self.folder.path(), key) });
        let (connections, incoming) = mpsc::unbounded_channel();
        let incoming = futures::stream::unfold(incoming, |mut incoming| async move {
            incoming.recv().await.map(|stream| (stream, incoming))
        });
        let serving = agent.clone();
        let server = tokio::spawn(async move {
            let _ = serving.serve(incoming).await;
        });
        let gate = Gate::default();
        self.running = Some(Running { limits: spec.limits, agent, connections, gate, server });
    }

    /// The limits of what runs.
    pub(super) fn limits(&self) -> Option<ResourceLimits> {
        self.running.as_ref().map(|running| running.limits)
    }

    /// Changes the limits of what runs, but for the disk's; says whether something does.
    pub(super) fn adjust(&mut self, limits: ResourceLimits) -> bool {
        let Some(running) = &mut self.running else { return false };
        running.limits = ResourceLimits { disk: running.limits.disk, ..limits };
        true
    }

    /// Lets what runs stand still, or go on; says whether something does.
    pub(super) fn hold(&self, still: bool) -> bool {
        let Some(running) = &self.running else { return false };
        if still {
            running.gate.close();
        } else {
            running.gate.open();
        }
        true
    }

    pub(super) fn is_held(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.gate.is_closed())
    }

    /// Ends everything that runs; the folder stays.
    pub(super) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.server.abort();
            running.agent.end_commands(Duration::ZERO).await;
        }
    }

    pub(super) fn connect(&self) -> Option<AgentStream> {
        // Nothing is started in what stands still.
        let running = self.running.as_ref().filter(|running| !running.gate.is_closed())?;
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        running.connections.send(Ok(Gated::new(theirs, running.gate.clone()))).ok()?;
        Some(Box::new(ours))
    }
}
