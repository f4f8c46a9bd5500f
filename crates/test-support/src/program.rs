//! The program under test.

use std::fs::{self, Permissions};
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

/// Where it is, if not beside the tests.
const EMERGENT_BIN: &str = "EMERGENT_BIN";

/// A user without any rights.
pub(crate) const NOBODY: u32 = 65534;

/// The `emergent` that was built with the tests, or the one that `EMERGENT_BIN` names.
pub(crate) fn locate() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(EMERGENT_BIN) {
        return Ok(path.into());
    }
    // Tests are in `deps`, programs one folder above.
    let own = std::env::current_exe().context("cannot find out where the tests are")?;
    let found =
        own.ancestors().skip(1).take(3).map(|folder| folder.join("emergent")).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path),
        None => bail!(
            "there is no `emergent` near {}: build it with `cargo build -p emergent-cli`, or name it with {EMERGENT_BIN}",
            own.display()
        ),
    }
}

/// Where the program is, for tests that start it in a way of their own.
///
/// # Panics
///
/// When it is not built.
pub fn program_path() -> PathBuf {
    locate().expect("the program is built")
}

/// What a run of the program left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
}

/// Runs the program to its end, with these variables and no other of its own.
///
/// # Panics
///
/// When it cannot be started at all.
pub async fn run_program(arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let program = locate().expect("the program is built");
    run(command(program, variables).args(arguments)).await
}

/// As [`run_program`], but as a user without any rights.
///
/// # Panics
///
/// When it cannot be started at all.
pub async fn run_unprivileged(arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = for_everybody(folder.path()).expect("the program can be copied");
    run(command(program, variables).args(arguments).uid(NOBODY).gid(NOBODY)).await
}

/// As [`run_program`], with this on its standard input.
///
/// # Panics
///
/// When it cannot be started at all.
pub async fn run_program_with_input(
    arguments: &[&str],
    variables: &[(&str, &str)],
    input: &[u8],
) -> CommandOutput {
    let mut stdin = tempfile::tempfile().expect("a temporary file can be made");
    stdin.write_all(input).and_then(|()| stdin.rewind()).expect("a temporary file can be written");
    let program = locate().expect("the program is built");
    run_reading(command(program, variables).args(arguments), stdin.into()).await
}

async fn run(command: &mut Command) -> CommandOutput {
    run_reading(command, Stdio::null()).await
}

async fn run_reading(command: &mut Command, stdin: Stdio) -> CommandOutput {
    let output = command.stdin(stdin).kill_on_drop(true).output().await.expect("the program starts");
    CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A copy of the program that any user can start, wherever the checkout is.
pub(crate) fn for_everybody(folder: &Path) -> Result<PathBuf> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let copy = folder.join("emergent");
    fs::copy(locate()?, &copy)?;
    fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// The program without what the environment of the tests would tell it.
pub(crate) fn command(program: PathBuf, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    // The machine's own network, Docker and runsc are left alone unless a test wants it otherwise.
    command
        .env_clear()
        .env("WORKSPACE_DEFAULT_NETWORK", "isolated")
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env("WORKSPACE_GVISOR_MODE", "docker")
        // Sandboxes that a test does not know of would be in its way.
        .env("WORKSPACE_WARM_POOL_SIZE", "0")
        .envs(variables.iter().copied());
    for kept in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    // So that no emergent.toml of the folder they run in has a say.
    command.current_dir("/");
    command
}
