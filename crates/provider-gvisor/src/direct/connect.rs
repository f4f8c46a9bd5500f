//! Opening a stream to an agent.

use std::process::Stdio;
use std::time::Duration;

use emergent_agent_client::AgentStream;
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::host::Host;
use super::pipes::PipeStream;
use crate::agent_volume::PROGRAM;
use crate::container::SOCKET;

/// How long a relay may take until the agent speaks.
const RELAY_LIMIT: Duration = Duration::from_secs(15);

/// How long a question may take, and how much may be printed.
const ASK_LIMIT: Duration = Duration::from_secs(60);
const MAX_PRINTED: u64 = 4096;

impl Host {
    /// The first connection if it is still free, else a relay inside the sandbox.
    pub(super) async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        if let Some(first) = self.streams.take_first(id) {
            return Ok(Box::new(first));
        }
        if !self.layout.sandbox(id).exists() {
            return Err(self.not_found(id));
        }
        let mut command = self.exec(id, &["relay", SOCKET]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.unavailable(self.runsc.failed_start(error)))?;
        let missing = || self.step(Operation::Connect, id, "relay", "a pipe is missing");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let mut stream = PipeStream::new(input, output, Some(child), self.streams.ended(id));
        match tokio::time::timeout(RELAY_LIMIT, stream.speaks()).await {
            Ok(Ok(true)) => Ok(Box::new(stream.over(self.streams.relay(id)))),
            // There is no sandbox, or nothing runs in it.
            Ok(Ok(false)) => Err(match self.record(id) {
                Some(_) => self.not_running(id),
                None => self.not_found(id),
            }),
            Ok(Err(error)) => Err(self.step(Operation::Connect, id, "relay", error)),
            Err(_) => Err(ProviderError::TimedOut {
                provider: self.kind(),
                operation: Operation::Connect,
                id,
                limit: RELAY_LIMIT,
            }),
        }
    }

    /// Runs the agent's program once inside and returns what it printed.
    pub(super) async fn ask_agent(
        &self,
        id: WorkspaceId,
        what: &str,
        arguments: &[String],
    ) -> Result<String, String> {
        let mut words = vec![what];
        words.extend(arguments.iter().map(String::as_str));
        let mut command = self.exec(id, &words);
        command.stdout(Stdio::piped());
        let asked = async {
            let mut child = command.spawn()?;
            let mut printed = Vec::new();
            if let Some(output) = child.stdout.take() {
                output.take(MAX_PRINTED).read_to_end(&mut printed).await?;
            }
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&printed).into_owned())
        };
        match tokio::time::timeout(ASK_LIMIT, asked).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it took longer than {ASK_LIMIT:?}")),
        }
    }

    /// A run of the agent's program beside the agent, as root.
    fn exec(&self, id: WorkspaceId, arguments: &[&str]) -> Command {
        let mut command = self.runsc.command();
        command.args(["exec", "--user=0:0", "--cwd=/"]).arg(self.names.container(id));
        command.arg(PROGRAM).args(arguments);
        command
    }
}
