//! A bare container, seen from the process that asks for it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::subprograms::Subprogram;

/// How long the steps of a launch took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LauncherTimes {
    pub(crate) total: Duration,
    /// The launcher's own process.
    pub(crate) process: Duration,
    /// `libcontainer`: namespaces, limits, mounts.
    pub(crate) build: Duration,
    /// `libcontainer`: until the program is executed.
    pub(crate) start: Duration,
}

/// What the launcher says when the container runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Launched {
    pub(super) build_micros: u64,
    pub(super) start_micros: u64,
}

/// A running container. It is removed when its launcher's standard input ends, so at the
/// latest with this process.
pub(super) struct BareContainer {
    launcher: Child,
}

impl BareContainer {
    pub(super) fn start(folder: &Path, root: &Path, name: &str) -> Result<(Self, LauncherTimes)> {
        let started = Instant::now();
        let mut launcher = Subprogram::BareLauncher
            .command()
            .args([folder.as_os_str(), root.as_os_str(), name.as_ref()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the launcher cannot be started")?;
        let mut line = String::new();
        BufReader::new(launcher.stdout.take().context("no pipe")?).read_line(&mut line)?;
        let total = started.elapsed();
        let Ok(launched) = serde_json::from_str::<Launched>(&line) else {
            let mut complaint = String::new();
            launcher.stdin.take();
            launcher.stderr.take().context("no pipe")?.read_to_string(&mut complaint)?;
            bail!("{}: {complaint}", launcher.wait()?);
        };
        let build = Duration::from_micros(launched.build_micros);
        let start = Duration::from_micros(launched.start_micros);
        let process = total.saturating_sub(build + start);
        Ok((Self { launcher }, LauncherTimes { total, process, build, start }))
    }

    pub(super) fn remove(mut self) -> Result<()> {
        self.launcher.stdin.take();
        let status = self.launcher.wait()?;
        ensure!(status.success(), "the launcher could not remove its container: {status}");
        Ok(())
    }
}

impl Drop for BareContainer {
    fn drop(&mut self) {
        self.launcher.stdin.take();
        // Something has failed already and is being reported.
        let _ = self.launcher.wait();
    }
}
