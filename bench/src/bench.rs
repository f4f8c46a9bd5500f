//! What every measurement is given.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::server::{Gvisor, ServerSetup};

/// What is left over from one repetition (a mount namespace, a loop device, a control group)
/// is taken down by the kernel in the background; the next one shall not be charged for it.
const SETTLING: Duration = Duration::from_millis(30);

/// What every measurement is given.
pub(crate) struct Bench {
    pub(crate) emergent: PathBuf,
    pub(crate) work_dir: PathBuf,
    pub(crate) quick: bool,
}

impl Bench {
    /// How often to repeat something.
    pub(crate) fn rounds(&self, complete: usize, quick: usize) -> usize {
        if self.quick { quick } else { complete }
    }

    /// A new, empty folder.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.work_dir.join(name);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// A server with a data folder of its own.
    pub(crate) fn server(&self, name: &str, max_concurrent: u32) -> Result<ServerSetup> {
        Ok(ServerSetup {
            program: self.emergent.clone(),
            data_dir: self.folder(name)?,
            max_concurrent,
            database_url: None,
            gvisor: Gvisor::Off,
            warm_pool_size: 0,
            git_host: None,
        })
    }

    /// Lets the kernel finish what the last repetition left to do.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(SETTLING).await;
    }
}

/// Builds the product as it is released, and says where it is.
pub(crate) fn build_server() -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Set for us by `cargo run`. A build script that sees them would be run again, and everything above it
    // compiled anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    let output = cargo
        .args([
            "build",
            "--release",
            "--package",
            "emergent-cli",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be started")?;
    ensure!(output.status.success(), "the product could not be built");
    let text = String::from_utf8(output.stdout)?;
    let mut programs = text.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let program = PathBuf::from(message["executable"].as_str()?);
        (program.file_name()? == "emergent").then_some(program)
    });
    programs.next_back().context("cargo has built no program `emergent`")
}
