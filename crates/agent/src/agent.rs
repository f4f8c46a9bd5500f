//! What all connections share.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_protocol::KEY_LENGTH;

use crate::environment::Environment;
use crate::exec::{Launcher, OomCounter};
use crate::git::Writers;
use crate::lease::{Lease, Record};
use crate::processes::Processes;
use crate::stdio::Programs;
use crate::terminal::Terminals;
use crate::tunnel::Tunnels;
use crate::watch::Watches;
use crate::workspace::Workspace;

/// Which processes are the sandbox's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every process that can be seen, except init and the agent's own: the agent runs in a
    /// PID namespace under an init of ours.
    Namespace,
    /// Only what this agent started and what descends from it.
    Commands,
}

/// What a sandbox may use, as far as its kernel leaves it to init and the agent to uphold that.
/// gVisor's does: at a limit of the control group around it, all of it is ended and not one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, files in memory included.
    pub memory: Option<u64>,
    /// Processes and threads of an account.
    pub processes: Option<u64>,
}

/// How an agent is run.
#[derive(Clone)]
pub struct Config {
    /// Where relative paths start and commands run unless told otherwise.
    pub workspace: PathBuf,
    /// What a control plane must know.
    pub key: [u8; KEY_LENGTH],
    /// What init and the agent uphold.
    pub limits: Limits,
    /// Where init counts what it has killed for want of memory, where it does.
    pub kills: Option<Arc<File>>,
    /// Where what is known of the control plane outlives the agent, where it does.
    pub lease: Option<Arc<File>>,
    /// What Quiesce ends.
    pub scope: Scope,
    /// How long, after the deadline of the last Hello, a sandbox nobody speaks to lives on.
    pub silence_limit: Duration,
    /// What the image's author wants programs to find in their environment.
    pub image_environment: BTreeMap<String, String>,
    /// The longest a command may be given, and what it gets when no time is named.
    pub max_timeout: Duration,
    /// Where the whole output of commands that print much is kept. Made when it is needed.
    pub output_folder: PathBuf,
    /// Where the sockets of services are, which the control plane offers.
    pub services: PathBuf,
}

impl Config {
    /// How long after its deadline a sandbox waits for a control plane.
    pub const SILENCE_LIMIT: Duration = Duration::from_secs(10 * 60);

    /// A ceiling, not a default: the control plane names the time of every command.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

    /// On the disk, where /tmp often is memory, and outside the workspace.
    pub const OUTPUT_FOLDER: &str = "/var/tmp/emergent-output";

    /// Where programs look for services.
    pub const SERVICES: &str = "/run/emergent/services";

    /// An agent that ends only what it started.
    pub fn new(workspace: impl Into<PathBuf>, key: [u8; KEY_LENGTH]) -> Self {
        Self {
            workspace: workspace.into(),
            key,
            limits: Limits::default(),
            kills: None,
            lease: None,
            scope: Scope::Commands,
            silence_limit: Self::SILENCE_LIMIT,
            image_environment: BTreeMap::new(),
            max_timeout: Self::MAX_TIMEOUT,
            output_folder: PathBuf::from(Self::OUTPUT_FOLDER),
            services: PathBuf::from(Self::SERVICES),
        }
    }
}

/// An agent. Cheap to clone; clones are the same agent.
///
/// It may serve several sets of connections one after another; background processes go on in
/// between. Dropping it ends nothing: [`Agent::end_commands`] does.
#[derive(Clone)]
pub struct Agent {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    /// The folder of the same name in `config`, for requests that name none.
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) started: Instant,
    pub(crate) environment: Environment,
    pub(crate) launcher: Launcher,
    pub(crate) oom: OomCounter,
    pub(crate) processes: Processes,
    pub(crate) lease: Lease,
    pub(crate) git: Writers,
    pub(crate) programs: Programs,
    pub(crate) terminals: Terminals,
    pub(crate) tunnels: Tunnels,
    pub(crate) watches: Watches,
}

impl Agent {
    /// An agent that serves nobody yet.
    pub fn new(config: Config) -> Self {
        let lease = Lease::new(config.silence_limit, config.lease.clone().map(Record::of));
        let environment = Environment::of(config.image_environment.clone());
        let oom = match &config.kills {
            Some(kills) => OomCounter::of_init(kills.clone(), config.limits.memory),
            None => OomCounter::default(),
        };
        Self {
            shared: Arc::new(Shared {
                workspace: Arc::new(Workspace::new(config.workspace.clone())),
                config,
                started: Instant::now(),
                environment,
                launcher: Launcher::default(),
                oom,
                processes: Processes::default(),
                lease,
                git: Writers::default(),
                programs: Programs::default(),
                terminals: Terminals::default(),
                tunnels: Tunnels::default(),
                watches: Watches::default(),
            }),
        }
    }

    /// Ends every command this agent started, with all that descends from it: SIGTERM, then
    /// SIGKILL for what is still there after `grace`. Returns how many had to be killed.
    pub async fn end_commands(&self, grace: Duration) -> u32 {
        crate::quiesce::end(&self.shared, Scope::Commands, grace).await
    }
}
