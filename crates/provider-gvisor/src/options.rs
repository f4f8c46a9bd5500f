//! What a provider is made with.

use std::borrow::Cow;
use std::path::PathBuf;

use emergent_host_net::Cidr;
use emergent_types::{InstallationId, IsolationLevel, ProviderKind};

use crate::engine::EngineAddress;

/// The image of a workspace whose request names none.
pub const DEFAULT_IMAGE: &str = "emergent/workspace:latest";

/// What a [`GvisorProvider`](crate::GvisorProvider) is made with.
#[derive(Clone)]
pub struct Options {
    /// Where disks and unpacked images are kept; a folder of this installation alone.
    pub data_dir: PathBuf,
    /// Whose sandboxes these are. Part of every name outside this process.
    pub installation: InstallationId,
    /// The program that becomes PID 1 of every sandbox.
    pub agent: Cow<'static, [u8]>,
    /// Which Docker.
    pub engine: EngineAddress,
    /// What Docker runs sandboxes with.
    pub runtime: Runtime,
    /// The image of sandboxes whose request names none.
    pub default_image: String,
    /// Ranges that sandboxes may reach although they are denied by default. The host's own addresses
    /// stay closed.
    pub egress_allow: Vec<Cidr>,
}

/// What Docker runs sandboxes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// gVisor's `runsc`.
    Runsc,
    /// Docker's own: a container on the host's kernel. Weaker, and known by another name, so that
    /// nobody takes the one for the other.
    Default,
}

impl Runtime {
    /// The provider that uses it.
    pub fn kind(self) -> ProviderKind {
        match self {
            Self::Runsc => ProviderKind::Gvisor,
            Self::Default => ProviderKind::Docker,
        }
    }

    /// The level that sandboxes under it have.
    pub fn isolation(self) -> IsolationLevel {
        match self {
            Self::Runsc => IsolationLevel::Gvisor,
            Self::Default => IsolationLevel::Container,
        }
    }

    /// Its name with Docker; `None` is Docker's default.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Runsc => Some("runsc"),
            Self::Default => None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("data_dir", &self.data_dir)
            .field("installation", &self.installation)
            .field("engine", &self.engine)
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}
