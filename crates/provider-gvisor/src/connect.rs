//! Opening a stream to an agent.

use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use emergent_agent_client::AgentStream;
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use crate::agent_volume;
use crate::container::SOCKET;
use crate::engine::EngineError;
use crate::host::Host;
use crate::stream::{Input, Output, ProcessStream};

/// As much as a frame of HTTP/2 carries.
const OUTPUT_CAPACITY: usize = 64 << 10;

impl Host {
    /// The first connection if it is still free, else a relay inside the container.
    pub(crate) async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        if let Some(first) = self.streams.take_first(id) {
            return Ok(Box::new(first));
        }
        let docker = self.docker().await?;
        let relay = [agent_volume::PROGRAM, "relay", SOCKET].map(str::to_owned).to_vec();
        let started = self.exec(&docker, id, relay).await;
        match started.map_err(self.docker_step(Operation::Connect, id, "relay"))? {
            Some((output, input)) => {
                let stream = ProcessStream::new(output, input, self.streams.ended(id));
                Ok(Box::new(stream.over(self.streams.relay(id))))
            }
            None => {
                let kept = self.has_disk(&docker, id).await;
                Err(match kept.map_err(self.docker_step(Operation::Connect, id, "look for its volume"))? {
                    true => self.not_running(id),
                    false => self.not_found(id),
                })
            }
        }
    }

    /// Starts a program beside the agent, as root, and holds on to its input and output. `None` when
    /// there is no container, or nothing runs in it.
    pub(crate) async fn exec(
        &self,
        docker: &Docker,
        id: WorkspaceId,
        command: Vec<String>,
    ) -> Result<Option<(Output, Input)>, EngineError> {
        let options = CreateExecOptions {
            cmd: Some(command),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            ..CreateExecOptions::default()
        };
        // It has ended, or stands still, or is not there.
        let is_away = |error: &EngineError| error.is_conflict() || error.is_not_found();
        let exec =
            match docker.create_exec(&self.names.container(id), options).await.map_err(EngineError::from) {
                Err(error) if is_away(&error) => return Ok(None),
                exec => exec?,
            };
        let start =
            StartExecOptions { output_capacity: Some(OUTPUT_CAPACITY), ..StartExecOptions::default() };
        match docker.start_exec(&exec.id, Some(start)).await.map_err(EngineError::from) {
            Ok(StartExecResults::Attached { output, input }) => Ok(Some((output, input))),
            Ok(StartExecResults::Detached) => Ok(None),
            Err(error) if is_away(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
