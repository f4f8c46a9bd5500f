//! Starting a sandbox around a workspace's disk, and the first connection to its agent.
//!
//! ```text
//!  volumes, agent mounted, bundle, record ─► runsc run --detach ─► key over standard input ─► the agent speaks
//!                                                 │                                              │
//!                                                 └► in the right network namespace?             └► kept for connect
//! ```
//!
//! The pipes are inherited by the sandbox, so the command can end and they stay. With this process both
//! end, which the agent takes for the end of a connection.

use std::process::Stdio;
use std::time::Duration;

use emergent_provider::{Operation, ProviderError, SandboxSpec};
use tokio::io::AsyncWriteExt;

use super::agent_folder;
use super::bundle::Bundle;
use super::host::Host;
use super::layout::{CONFIG, LOG, PID, write_file};
use super::named_volumes::BoundVolume;
use super::network::Connection;
use super::pipes::PipeStream;
use super::record::Record;
use super::runsc::{RunscError, last_line};

/// How long an agent may take to speak, from the start of its sandbox.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long the first connection is kept for somebody who wants it.
const FIRST_CONNECTION_KEPT: Duration = Duration::from_secs(60);

/// A sandbox that was started.
pub(super) struct Launched {
    pub(super) connection: Option<Connection>,
}

impl Host {
    /// Starts a sandbox whose disk is in its place. On error it may be half there; the caller removes it.
    pub(super) async fn launch(
        &self,
        operation: Operation,
        spec: &SandboxSpec,
        record: Record,
        connection: Option<Connection>,
    ) -> Result<Launched, ProviderError> {
        let id = spec.id;
        let volumes = self.named_volumes(operation, spec).await?;
        self.write_bundle(operation, spec, record, volumes, connection.as_ref()).await?;
        let ended = self.streams.begin(id);
        let folder = self.layout.sandbox(id);
        let mut command = self.runsc.command();
        command
            .arg(format!("--log={}", folder.join(LOG).display()))
            .arg("--log-format=json")
            .arg(Self::network_flag(spec.network))
            .args(["run", "--detach"])
            .arg(format!("--bundle={}", folder.display()))
            .arg(format!("--pid-file={}", folder.join(PID).display()))
            .arg(self.names.container(id))
            // Its complaints are in the log; what the sandbox's own processes would write there is nobody's.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let started = async {
            let mut child =
                command.spawn().map_err(|error| self.unavailable(self.runsc.failed_start(error)))?;
            let missing = || self.step(operation, id, "start the sandbox", "a pipe is missing");
            let input = child.stdin.take().ok_or_else(missing)?;
            let output = child.stdout.take().ok_or_else(missing)?;
            let mut stream = PipeStream::new(input, output, None, ended);
            let greeting = async {
                stream.write_all(format!("{}\n", spec.agent_key.expose_hex()).as_bytes()).await?;
                stream.flush().await?;
                stream.speaks().await
            };
            let running = async {
                let status = child.wait().await.map_err(|error| error.to_string())?;
                match status.success() {
                    true => self.check_started(spec, connection.as_ref()).await,
                    false => Err(self.why_not_started(spec, status).await),
                }
            };
            let (greeted, running) = tokio::join!(greeting, running);
            running.map_err(|reason| self.step(operation, id, "start the sandbox", reason))?;
            match greeted {
                Ok(true) => Ok(stream),
                Ok(false) => Err(self.step(operation, id, "agent", "it ended at once")),
                Err(error) => Err(self.step(operation, id, "agent", error)),
            }
        };
        match tokio::time::timeout(START_LIMIT, started).await {
            Ok(Ok(stream)) => {
                self.streams.keep_first(id, stream, FIRST_CONNECTION_KEPT);
                Ok(Launched { connection })
            }
            Ok(Err(error)) => {
                self.streams.end(id);
                Err(error)
            }
            Err(_) => {
                self.streams.end(id);
                Err(ProviderError::TimedOut { provider: self.kind(), operation, id, limit: START_LIMIT })
            }
        }
    }

    /// Everything that runsc finds in the folder of a workspace.
    async fn write_bundle(
        &self,
        operation: Operation,
        spec: &SandboxSpec,
        record: Record,
        volumes: Vec<BoundVolume>,
        connection: Option<&Connection>,
    ) -> Result<(), ProviderError> {
        let id = spec.id;
        let failed = |error| self.step(operation, id, "program of the agent", error);
        let program = self.agent.ensure().map_err(failed)?;
        let folder = self.layout.sandbox(id);
        let (namespace, group, counts_swap) =
            (connection.map(Connection::path), self.group(id), self.counts_swap);
        let (spec, nameservers) = (spec.clone(), Self::nameservers(spec.network));
        self.blocking(operation, id, "bundle", move || {
            let agent = agent_folder::mount(&program, &folder)?;
            let bundle = Bundle {
                spec: &spec,
                root: &folder.join("root"),
                agent: &agent,
                volumes: &volumes,
                control_group: &group,
                counts_swap,
                namespace: namespace.as_deref(),
                nameservers,
            };
            write_file(&folder.join(CONFIG), &serde_json::to_vec_pretty(&bundle.config())?, 0o600)?;
            for stale in [LOG, PID] {
                super::layout::remove_file(&folder.join(stale))?;
            }
            record.save(&folder)
        })
        .await
    }

    /// Whether it is where it should be.
    async fn check_started(&self, spec: &SandboxSpec, connection: Option<&Connection>) -> Result<(), String> {
        let pid = self.sandbox_pid(spec.id).ok_or("runsc does not say which process it is")?;
        self.check_namespace(pid, connection)
    }

    /// What runsc says of a start that failed.
    async fn why_not_started(&self, spec: &SandboxSpec, status: std::process::ExitStatus) -> String {
        let log = tokio::fs::read(self.layout.sandbox(spec.id).join(LOG)).await.unwrap_or_default();
        RunscError::Failed { command: "run", status, said: last_line(&log) }.to_string()
    }

    /// The process of a sandbox on the host, as runsc has written it down.
    pub(super) fn sandbox_pid(&self, id: emergent_types::WorkspaceId) -> Option<i32> {
        let text = std::fs::read_to_string(self.layout.sandbox(id).join(PID)).ok()?;
        text.trim().parse().ok()
    }
}
