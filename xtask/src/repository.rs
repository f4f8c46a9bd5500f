//! Where the repository is, what is in it, and how cargo is called in it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A checkout of this repository. All file names the commands speak of are relative to its root.
pub(crate) struct Repository {
    root: PathBuf,
}

/// The part of `cargo metadata --no-deps` the commands look at.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// A package of this workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency as a manifest declares it.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    pub(crate) optional: bool,
}

impl Repository {
    /// The checkout this program was started in by cargo.
    pub(crate) fn locate() -> Result<Self> {
        // At run time, not at compile time: a checkout may have moved with its target folder.
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir.parent().context("xtask lies in the root of the repository")?;
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn read(&self, relative: impl AsRef<Path>) -> Result<String> {
        let path = self.path(relative);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// A cargo command in the root of the repository.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).current_dir(&self.root);
        // Set for us by `cargo run`. A build script that sees them would be run again each time
        // the commands are started in another way.
        for (name, _) in env::vars_os() {
            let of_cargo_run = name
                .to_str()
                .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
            if of_cargo_run {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a cargo command with its output on ours; says whether it succeeded.
    pub(crate) fn run_cargo(&self, arguments: &[&str]) -> Result<bool> {
        let status =
            self.cargo(arguments).status().with_context(|| format!("cannot start cargo {arguments:?}"))?;
        Ok(status.success())
    }

    /// Builds every program of the workspace, with the features the tests use: a narrower build
    /// would compile half of the dependencies a second time.
    pub(crate) fn build_programs(&self) -> Result<()> {
        if !self.run_cargo(&["build", "--workspace", "--bins", "--tests"])? {
            bail!("the programs do not build");
        }
        Ok(())
    }

    pub(crate) fn metadata(&self) -> Result<Metadata> {
        let output = self
            .cargo(&["metadata", "--no-deps", "--format-version", "1"])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed");
        }
        serde_json::from_slice(&output.stdout).context("cargo metadata printed what we do not understand")
    }

    /// Every file that is in the repository or would be added to it, sorted, without what
    /// `.gitignore` names.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start git")?;
        if !output.status.success() {
            bail!("git ls-files failed in {}", self.root.display());
        }
        let listing = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let mut files: Vec<String> = listing
            .split('\0')
            // A deleted file stays listed until the deletion is added.
            .filter(|file| !file.is_empty() && self.path(file).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }
}
