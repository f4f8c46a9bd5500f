//! Programs from PyPI, each in a virtual environment of its own below `target/xtask/python`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::machine::{self, Readiness};
use super::tiers::{PythonTool, Tier};
use crate::repository::Repository;

const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// Installs what a tier misses; a tier that is not ready for another reason stays so.
pub(super) fn make_ready(repository: &Repository, tier: &Tier, readiness: Readiness) -> Readiness {
    if readiness != Readiness::Ready {
        return readiness;
    }
    for tool in tier.python {
        if let Err(error) = ensure(&repository.path("target/xtask/python"), *tool) {
            return Readiness::Missing(format!("{} (from PyPI) missing: {error:#}", tool.package));
        }
    }
    Readiness::Ready
}

fn ensure(folder: &Path, tool: PythonTool) -> Result<()> {
    let environment = folder.join(tool.name);
    // Written last, so that an installation that was cut off is begun again.
    let installed = environment.join("installed-version");
    if fs::read_to_string(&installed).is_ok_and(|version| version == tool.version) {
        return Ok(());
    }
    if environment.exists() {
        fs::remove_dir_all(&environment).with_context(|| environment.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    ensure_venv()?;
    run(Command::new(python()).args(["-m", "venv"]).arg(&environment))?;
    let pip = environment.join("bin/pip");
    let wanted = format!("{}=={}", tool.package, tool.version);
    run(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", &wanted]))?;
    fs::write(&installed, tool.version).with_context(|| installed.display().to_string())
}

/// The system's own where there is one: an environment made with it works in a sandbox, which has no other.
fn python() -> &'static str {
    if Path::new(SYSTEM_PYTHON).is_file() { SYSTEM_PYTHON } else { "python3" }
}

/// Debian has the module that makes environments in a package of its own.
fn ensure_venv() -> Result<()> {
    let is_there =
        Command::new(python()).args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    if is_there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    if !machine::is_root() {
        bail!("python3 has no venv (package python3-venv), and only root can install it");
    }
    run(Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", "python3-venv"])
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

pub(super) fn run(command: &mut Command) -> Result<()> {
    let program = PathBuf::from(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
