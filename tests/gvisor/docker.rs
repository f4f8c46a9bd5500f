//! The `docker` program. It is given argument lists only, and a deadline for every answer.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

/// More than anything takes on a busy machine; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DockerError {
    #[error("{command}: {source}")]
    Start { command: String, source: io::Error },
    #[error("{command}: {status}: {stderr}", status = output.status, stderr = String::from_utf8_lossy(&output.stderr).trim())]
    Failed { command: String, output: Output },
    #[error("{command}: no answer within {PATIENCE:?}")]
    TimedOut { command: String },
}

/// A client of one daemon.
#[derive(Debug, Clone)]
pub(crate) struct Docker {
    program: PathBuf,
    daemon: String,
    config: PathBuf,
}

impl Docker {
    /// A client of the daemon that listens on `socket`. `config` is an empty folder: what a
    /// person has set up for their own client is no business of the tests.
    pub(crate) fn new(program: PathBuf, socket: &Path, config: PathBuf) -> Self {
        Self { program, daemon: format!("unix://{}", socket.display()), config }
    }

    /// A command that is not started yet. Its process ends when it is dropped.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&self.config).args(["--host", &self.daemon]).args(arguments);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a command to its end; answers what it printed.
    pub(crate) async fn call<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, DockerError> {
        finish(self.command(arguments)).await
    }
}

/// Runs a command to its end; answers what it printed.
pub(crate) async fn finish(mut command: Command) -> Result<String, DockerError> {
    let shown = format!("{:?}", command.as_std());
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Err(_) => Err(DockerError::TimedOut { command: shown }),
        Ok(Err(source)) => Err(DockerError::Start { command: shown, source }),
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(DockerError::Failed { command: shown, output }),
    }
}
