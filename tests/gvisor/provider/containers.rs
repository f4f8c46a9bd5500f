//! Containers and volumes of one installation.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use emergent_provider::{ObservedSandbox, ObservedState, Operation, ProviderError, SandboxSpec};
use emergent_types::{InstallationId, WorkspaceId};
use tokio_util::sync::CancellationToken;

use super::{KIND, step_error};
use crate::WORKSPACE;
use crate::daemon::DockerDaemon;
use crate::docker::{Docker, DockerError, finish};
use crate::relay::Relay;
use crate::root_image;

/// Where the agent listens, inside.
const SOCKET: &str = "/run/emergent/agent.sock";

/// How init is handed the key.
const KEY_VARIABLE: &str = "EMERGENT_AGENT_KEY";

/// Whose a container or volume is, and for which workspace. Only ids become labels: nothing
/// that a user wrote reaches the runtime.
const INSTALLATION_LABEL: &str = "emergent.installation";
const WORKSPACE_LABEL: &str = "emergent.workspace";

/// gVisor's own kernel counts against the control group of its sandbox. The group's wall
/// stands above the limit, because reaching it ends the sandbox and not one process.
const SENTRY_BYTES: u64 = 128 << 20;

/// gVisor needs threads of the host's for what runs inside; with too few its kernel panics.
const PROCESSES: &str = "1024";

/// How long an agent may take to listen, from the start of its container.
const START_LIMIT: Duration = Duration::from_secs(20);

/// What exists for one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Neither container nor volume.
    Nothing,
    /// A container that was never started.
    Partial,
    /// Volumes, and perhaps a container that has ended.
    Stopped,
    /// A running container.
    Running,
}

pub(super) struct Containers {
    docker: Docker,
    installation: InstallationId,
    /// The agent's program, as a file of the host.
    agent: PathBuf,
    capabilities: &'static [&'static str],
    /// Told when a container is ended, for its streams to hear.
    ended: Mutex<HashMap<WorkspaceId, CancellationToken>>,
}

impl Containers {
    pub(super) fn new(
        daemon: &DockerDaemon,
        installation: InstallationId,
        capabilities: &'static [&'static str],
    ) -> Self {
        let agent = daemon.folder().join("agent");
        fs::write(&agent, emergent_agent_bundle::bytes())
            .and_then(|()| fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)))
            .expect("a temporary folder can be written to");
        Self { docker: daemon.docker().clone(), installation, agent, capabilities, ended: Mutex::default() }
    }

    /// The container of a workspace.
    pub(super) fn name(&self, id: WorkspaceId) -> String {
        format!("emergent-{}-{id}", self.installation)
    }

    /// What Docker can run containers with, as JSON.
    pub(super) async fn runtimes(&self) -> Result<String, DockerError> {
        self.docker.call(["info", "--format", "{{json .Runtimes}}"]).await
    }

    /// Starts a container around the workspace's volumes, which are made with it where they
    /// are missing, and waits until its agent answers. On error no container is left.
    pub(super) async fn launch(&self, operation: Operation, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let failed = |step| step_error(operation, spec.id, step);
        self.end(spec.id).await.map_err(failed("remove the ended container"))?;
        let started = self.start(spec).await.map_err(failed("docker run"));
        let answers = match started {
            Ok(()) => self.wait_for_agent(operation, spec.id).await,
            Err(error) => Err(error),
        };
        if answers.is_err() {
            self.end(spec.id).await.map_err(failed("remove the failed container"))?;
        }
        answers
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), DockerError> {
        let mut command = self.docker.command(self.run_arguments(spec));
        // From the client's environment, because arguments are there for every user to read.
        command.env(KEY_VARIABLE, spec.agent_key.expose_hex());
        finish(command).await.map(drop)
    }

    fn run_arguments(&self, spec: &SandboxSpec) -> Vec<String> {
        let memory = (spec.limits.memory.bytes() + SENTRY_BYTES).to_string();
        let volume = |kind: &str, target: &str| {
            let name = volume_name(kind, spec.id);
            let labels = self.labels(spec.id).map(|label| format!(",volume-label={label}")).concat();
            format!("type=volume,source={name},target={target}{labels}")
        };
        let agent =
            format!("type=bind,source={},target={},readonly", self.agent.display(), root_image::AGENT);
        let name = self.name(spec.id);
        let cpus = spec.limits.cpu.to_string();
        let (workspace, home) = (volume("workspace", WORKSPACE), volume("home", "/home"));

        let mut arguments = vec!["run", "--detach", "--runtime", "runsc", "--name", &name];
        let labels = self.labels(spec.id);
        arguments.extend(labels.iter().flat_map(|label| ["--label", label]));
        arguments.extend(["--read-only", "--security-opt", "no-new-privileges", "--network", "none"]);
        arguments.extend(["--cap-drop", "ALL"]);
        arguments.extend(self.capabilities.iter().flat_map(|capability| ["--cap-add", capability]));
        // Equal, so that there is no swap beyond the memory.
        arguments.extend(["--memory", &memory, "--memory-swap", &memory]);
        arguments.extend(["--cpus", &cpus, "--pids-limit", PROCESSES]);
        arguments.extend(["--tmpfs", "/run", "--tmpfs", "/tmp:exec,mode=1777"]);
        arguments.extend(["--mount", root_image::PROGRAMS, "--mount", &agent]);
        arguments.extend(["--mount", &workspace, "--mount", &home]);
        arguments.extend(["--env", KEY_VARIABLE, "--entrypoint", root_image::AGENT, root_image::TAG]);
        arguments.extend(["init", "--listen", SOCKET, "--workspace", WORKSPACE]);
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// A relay without input connects and ends well as soon as the agent's socket is there.
    async fn wait_for_agent(&self, operation: Operation, id: WorkspaceId) -> Result<(), ProviderError> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let error = match finish(self.relay_command(id, &[])).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let look = self.look(id).await.map_err(step_error(operation, id, "look"))?;
            if look != Found::Running {
                return Err(step_error(operation, id, "agent")(error));
            }
            if Instant::now() > deadline {
                return Err(ProviderError::TimedOut { provider: KIND, operation, id, limit: START_LIMIT });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens a byte stream to the agent.
    pub(super) fn relay(&self, id: WorkspaceId) -> io::Result<Relay> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone();
        Relay::start(self.relay_command(id, &["--interactive"]), ended)
    }

    fn relay_command(&self, id: WorkspaceId, options: &[&str]) -> tokio::process::Command {
        let name = self.name(id);
        // Docker would give the relay the container's environment, where others inside could
        // read the key; init has removed it from its own.
        let no_key = format!("{KEY_VARIABLE}=");
        let before = ["exec", "--env", &no_key];
        let after = [name.as_str(), root_image::AGENT, "relay", SOCKET];
        self.docker.command(before.iter().chain(options).chain(&after))
    }

    /// Removes the container and keeps the volumes. One that is not there is success.
    pub(super) async fn end(&self, id: WorkspaceId) -> Result<(), DockerError> {
        for container in self.containers_of(id, "{{.ID}}").await? {
            self.docker.call(["rm", "--force", &container]).await?;
        }
        if let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
            ended.cancel();
        }
        Ok(())
    }

    /// Removes everything. What is not there is success.
    pub(super) async fn remove(&self, id: WorkspaceId) -> Result<(), DockerError> {
        self.end(id).await?;
        for volume in self.volumes_of(id).await? {
            self.docker.call(["volume", "rm", "--force", &volume]).await?;
        }
        Ok(())
    }

    pub(super) async fn look(&self, id: WorkspaceId) -> Result<Found, DockerError> {
        let states = self.containers_of(id, "{{.State}}").await?;
        Ok(match states.first().map(String::as_str) {
            Some(state) => Found::from_state(state),
            None if self.volumes_of(id).await?.is_empty() => Found::Nothing,
            None => Found::Stopped,
        })
    }

    pub(super) async fn list(&self) -> Result<Vec<ObservedSandbox>, DockerError> {
        let ours = format!("label={INSTALLATION_LABEL}={}", self.installation);
        let workspace = format!("{{{{.Label \"{WORKSPACE_LABEL}\"}}}}");
        let with_state = format!("{workspace} {{{{.State}}}}");
        let volumes = self.docker.call(["volume", "ls", "--filter", &ours, "--format", &workspace]).await?;
        let containers =
            self.docker.call(["ps", "--all", "--filter", &ours, "--format", &with_state]).await?;

        let mut found = BTreeMap::new();
        for id in volumes.lines().filter_map(|line| line.parse::<WorkspaceId>().ok()) {
            found.insert(id, ObservedState::Stopped);
        }
        for (id, state) in containers.lines().filter_map(|line| line.split_once(' ')) {
            let Ok(id) = id.parse::<WorkspaceId>() else { continue };
            found.insert(
                id,
                match Found::from_state(state) {
                    Found::Running => ObservedState::Running,
                    Found::Stopped => ObservedState::Stopped,
                    Found::Partial | Found::Nothing => ObservedState::Partial,
                },
            );
        }
        Ok(found.into_iter().map(|(id, state)| ObservedSandbox { id, state }).collect())
    }

    async fn containers_of(&self, id: WorkspaceId, format: &str) -> Result<Vec<String>, DockerError> {
        let [ours, its] = self.labels(id).map(|label| format!("label={label}"));
        let arguments =
            ["ps", "--all", "--no-trunc", "--filter", &ours, "--filter", &its, "--format", format];
        Ok(lines(&self.docker.call(arguments).await?))
    }

    async fn volumes_of(&self, id: WorkspaceId) -> Result<Vec<String>, DockerError> {
        let [ours, its] = self.labels(id).map(|label| format!("label={label}"));
        Ok(lines(&self.docker.call(["volume", "ls", "--quiet", "--filter", &ours, "--filter", &its]).await?))
    }

    fn labels(&self, id: WorkspaceId) -> [String; 2] {
        [format!("{INSTALLATION_LABEL}={}", self.installation), format!("{WORKSPACE_LABEL}={id}")]
    }
}

impl Found {
    /// From the state of a container, in Docker's words.
    fn from_state(state: &str) -> Self {
        match state {
            "running" => Self::Running,
            "exited" | "dead" => Self::Stopped,
            // created, removing, and what newer daemons may add.
            _ => Self::Partial,
        }
    }
}

fn volume_name(kind: &str, id: WorkspaceId) -> String {
    format!("agent-{kind}-{id}")
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
