//! Sandboxes as `runsc` itself makes them, from a bundle.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

/// `runsc`, over a root that is there already.
pub(crate) struct BareRunsc {
    root: PathBuf,
    folder: PathBuf,
}

impl BareRunsc {
    /// Over the root from which a server makes its workspaces; `folder` is for bundles and states.
    pub(crate) fn over_root_of(data_dir: &Path, folder: PathBuf) -> Result<Self> {
        let roots = data_dir.join("direct/images/roots");
        let found = fs::read_dir(&roots).with_context(|| roots.display().to_string())?;
        let mut found = found.filter_map(Result::ok).map(|entry| entry.path());
        let root = found.find(|root| root.join("usr/bin/bash").exists()).context("no root has a shell")?;
        Ok(Self { root, folder })
    }

    /// Starts a sandbox with the limits that a workspace has by default, runs a command in it, and removes
    /// it; the time until the command has ended.
    pub(crate) fn run_and_exec(&self, round: usize) -> Result<Duration> {
        let name = format!("emergent-bare-{}-{round}", std::process::id());
        let bundle = self.folder.join(&name);
        fs::create_dir(&bundle)?;
        fs::write(bundle.join("config.json"), self.config(&name).to_string())?;
        let start = Instant::now();
        self.runsc(&["run", "--detach", "--bundle", &bundle.to_string_lossy(), &name])?;
        let answered = self.runsc(&["exec", &name, "bash", "-c", "true"]);
        let took = start.elapsed();
        self.runsc(&["delete", "--force", &name])?;
        answered.map(|()| took)
    }

    fn config(&self, name: &str) -> serde_json::Value {
        let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({ "type": kind }));
        json!({
            "ociVersion": "1.0.2",
            "root": { "path": self.root, "readonly": true },
            "process": {
                "user": { "uid": 0, "gid": 0 }, "cwd": "/", "args": ["sleep", "60"],
                "env": ["PATH=/usr/bin:/bin"], "noNewPrivileges": true,
            },
            "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
            "linux": {
                "cgroupsPath": format!("/{name}"),
                "namespaces": namespaces,
                "resources": {
                    "memory": { "limit": 4_u64 << 30 },
                    "cpu": { "period": 100_000, "quota": 200_000 },
                },
            },
        })
    }

    fn runsc(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("runsc");
        command.arg(format!("--root={}", self.folder.join("state").display()));
        command.args(["--platform=systrap", "--network=none", "--overlay2=none"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().context("`runsc` cannot be started")?;
        ensure!(status.success(), "runsc {arguments:?}: {status}");
        Ok(())
    }
}
