//! What the server and the launch helper say to each other.

use std::fmt;
use std::path::PathBuf;

use emergent_types::{InstallationId, LimitEnforcement, ResourceLimits, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::means::{DiskKind, Launcher};
use crate::process::ProcessIdentity;
use crate::uid_range::UidRange;

/// What the server says, after the request, when the helper is in its control group.
pub(crate) const GROUPED: &str = "grouped\n";

/// What the server says after that, when the sandbox is connected.
pub(crate) const CONNECTED: &str = "connected\n";

/// A sandbox to be started. Not `Debug`: it holds the agent's key.
#[derive(Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    pub(crate) installation: InstallationId,
    pub(crate) workspace: WorkspaceId,
    /// The server's process: when it is not the helper's parent any more, nobody waits for
    /// the sandbox.
    pub(crate) server: i32,
    /// The folder with the disk; the agent's socket is made there.
    pub(crate) state_folder: PathBuf,
    /// The folder with the agent's program.
    pub(crate) agent_folder: PathBuf,
    /// Folders of the host's root that hold its system.
    pub(crate) system_folders: Vec<String>,
    /// Who starts it.
    pub(crate) launcher: Launcher,
    /// What its disk is.
    pub(crate) disk: DiskKind,
    /// Whose content the disk has.
    pub(crate) content: DiskContent,
    pub(crate) ids: UidRange,
    pub(crate) limits: ResourceLimits,
    /// Whether the server connects it before its agent is started.
    pub(crate) connected: bool,
    pub(crate) cgroups: Cgroups,
    /// Which limits are set.
    pub(crate) enforced: LimitEnforcement,
    /// The sandbox's group, from each hierarchy's root.
    pub(crate) group: String,
    /// In hexadecimal.
    pub(crate) agent_key: String,
}

/// Whose content a disk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DiskContent {
    /// This program's: no sandbox has used it yet.
    New,
    /// The sandbox's own.
    Kept,
    /// Another sandbox's, of which it is a copy.
    Copied,
}

/// How it went.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaunchReply {
    /// Not the answer yet: the network namespace is open under this number in the helper.
    Network { descriptor: i32 },
    /// The agent was started.
    Launched { init: ProcessIdentity, steps: Vec<StepTiming> },
    /// It was not.
    Failed { step: LaunchStep, reason: String },
}

/// The steps of a launch, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchStep {
    /// The server: copying the disk's template.
    DiskCopy,
    /// The server: the helper's process itself, from its start to its end, without its steps.
    HelperProcess,
    /// Reading the request.
    Request,
    /// Making the socket the agent will listen on.
    Socket,
    /// Making the user namespace.
    UserNamespace,
    /// Attaching and mounting the disk.
    Disk,
    /// Waiting to be put into the sandbox's control group, as far as that was not done by then.
    Cgroup,
    /// Putting the sandbox's root together.
    RootFs,
    /// `libcontainer`: namespaces, limits, mounts. Without root, the first process does the
    /// same for itself.
    Build,
    /// Waiting until the sandbox is connected, as far as that was not done by then.
    Network,
    /// Running the agent.
    Start,
}

impl LaunchStep {
    /// Every step, in order.
    pub const ALL: [Self; 11] = [
        Self::DiskCopy,
        Self::HelperProcess,
        Self::Request,
        Self::Socket,
        Self::UserNamespace,
        Self::Disk,
        Self::Cgroup,
        Self::RootFs,
        Self::Build,
        Self::Network,
        Self::Start,
    ];

    /// The step's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DiskCopy => "disk copy",
            Self::HelperProcess => "helper process",
            Self::Request => "request",
            Self::Cgroup => "cgroup",
            Self::Socket => "socket",
            Self::UserNamespace => "user namespace",
            Self::Disk => "disk",
            Self::RootFs => "root file system",
            Self::Build => "libcontainer build",
            Self::Network => "network",
            Self::Start => "agent start",
        }
    }
}

impl fmt::Display for LaunchStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How long one step took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTiming {
    /// Which step.
    pub step: LaunchStep,
    /// How long.
    pub micros: u64,
}
