//! Containers as Docker's own client makes them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use emergent_test_support::TEST_IMAGE;

/// A Docker, by where it listens.
#[derive(Debug, Clone)]
pub(crate) struct BareDocker {
    address: String,
}

/// A container under gVisor in which nothing happens; removed with the value.
pub(crate) struct BareContainer {
    docker: BareDocker,
    id: String,
}

impl BareDocker {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned() }
    }

    /// Starts a container with the limits that a workspace has by default.
    pub(crate) fn run(&self) -> Result<BareContainer> {
        let id = self.client(&[
            "run",
            "--detach",
            "--runtime",
            "runsc",
            "--network",
            "none",
            "--cpus",
            "2",
            "--memory",
            "4g",
            "--memory-swap",
            "4g",
            "--volume",
            "/workspace",
            TEST_IMAGE,
            "sleep",
            "infinity",
        ])?;
        Ok(BareContainer { docker: self.clone(), id })
    }

    /// Docker's own client; what it printed.
    pub(crate) fn client(&self, arguments: &[&str]) -> Result<String> {
        let mut docker = Command::new("docker");
        docker.args(["--host", &self.address]).args(arguments).stdin(Stdio::null());
        let output = docker.output().context("`docker` cannot be started")?;
        let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        ensure!(output.status.success(), "docker {arguments:?}: {}", printed(&output.stderr));
        Ok(printed(&output.stdout))
    }
}

impl BareContainer {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Runs a program in it.
    pub(crate) fn exec(&self, command: &[&str]) -> Result<String> {
        let mut arguments = vec!["exec", "--workdir", "/workspace", self.id.as_str()];
        arguments.extend(command);
        self.docker.client(&arguments)
    }
}

impl Drop for BareContainer {
    fn drop(&mut self) {
        // Goes with the daemon where this fails.
        let _ = self.docker.client(&["rm", "--force", "--volumes", &self.id]);
    }
}
