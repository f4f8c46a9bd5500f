//! A program that runs beside a tier's tests, for all of them: it says what they must find in their
//! environment, and ends when its input does.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::repository::Repository;

/// The program's last line before it waits.
const READY: &str = "ready";

/// A program that runs.
pub(crate) struct Beside {
    child: Child,
    variables: Vec<(String, String)>,
}

impl Beside {
    /// Starts a program of this workspace and waits until it is ready.
    pub(crate) fn start(repository: &Repository, program: &str) -> Result<Self> {
        let path = repository.metadata()?.target_directory.join("debug").join(program);
        let mut child = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        let output = child.stdout.take().context("a pipe that was asked for is missing")?;
        let mut beside = Self { child, variables: Vec::new() };
        for line in BufReader::new(output).lines() {
            let line = line.with_context(|| format!("cannot read what {program} says"))?;
            if line == READY {
                return Ok(beside);
            }
            if let Some((name, value)) = line.split_once('=') {
                beside.variables.push((name.to_owned(), value.to_owned()));
            }
        }
        bail!("{program} ended before it was ready; what it said is above");
    }

    /// What tests must find in their environment.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
