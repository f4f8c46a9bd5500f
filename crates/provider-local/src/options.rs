//! What a provider is made with.

use std::borrow::Cow;
use std::path::PathBuf;

use emergent_types::InstallationId;

use crate::cgroup::Controller;

/// What a [`LocalProvider`](crate::LocalProvider) is made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where disks and state are kept; a folder of this installation alone.
    pub data_dir: PathBuf,
    /// Whose sandboxes these are. Part of every name outside this process.
    pub installation: InstallationId,
    /// The program that becomes PID 1 of every sandbox.
    pub agent: AgentSource,
    /// How to start the launch helper.
    pub helper: HelperCommand,
}

/// What is not to be used although the host has it: as on a host that lacks it.
#[derive(Debug, Clone, Default)]
pub struct Withheld {
    /// Disks that are files with a file system of their own; they are folders then.
    pub disk_images: bool,
    /// Control group controllers.
    pub controllers: Vec<Controller>,
}

/// Where the agent's program comes from.
#[derive(Clone)]
pub enum AgentSource {
    /// Its bytes, embedded in the server.
    Bytes(Cow<'static, [u8]>),
    /// A file on the host.
    Path(PathBuf),
}

impl std::fmt::Debug for AgentSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Path(path) => write!(f, "Path({})", path.display()),
        }
    }
}

/// How to start the launch helper: a single-threaded process, because a process with threads
/// cannot enter a user namespace. Its `main` must be nothing but
/// [`helper::main`](crate::helper::main).
#[derive(Debug, Clone)]
pub struct HelperCommand {
    /// The program.
    pub program: PathBuf,
    /// What comes before the helper's own arguments.
    pub args: Vec<String>,
}

impl HelperCommand {
    /// The running program itself, with a subcommand that leads to
    /// [`helper::main`](crate::helper::main). Goes through `/proc/self/exe`, so that it is the
    /// same build even after the file on disk has been replaced by an upgrade.
    pub fn current_exe(subcommand: &str) -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), args: vec![subcommand.to_owned()] }
    }
}
