//! The names of the sandbox providers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::IsolationLevel;
use crate::UnknownName;
use crate::workspace::{find_by_name, vocabulary};

vocabulary! {
    /// A kind of sandbox provider.
    ProviderKind {
        /// E2B's cloud, or a server that speaks its protocol.
        E2b = "e2b",
        /// Firecracker microVMs on this installation's own hosts.
        Firecracker = "firecracker",
        /// gVisor's runsc, under Docker or by itself.
        Gvisor = "gvisor",
        /// Docker's own runtime: no more than a container.
        Docker = "docker",
        /// The embedded namespace sandbox, which needs nothing but Linux.
        Local = "local",
    }
}

impl ProviderKind {
    /// The isolation that sandboxes of this kind have wherever they run.
    pub fn isolation(self) -> IsolationLevel {
        match self {
            Self::E2b | Self::Firecracker => IsolationLevel::Microvm,
            Self::Gvisor => IsolationLevel::Gvisor,
            Self::Docker | Self::Local => IsolationLevel::Container,
        }
    }
}

/// What a request says about the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProviderChoice {
    /// The orchestrator chooses, and may fall back.
    #[default]
    Auto,
    /// This one or none: an explicit choice never falls back.
    Explicit(ProviderKind),
}

impl ProviderChoice {
    /// The choice's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Explicit(kind) => kind.as_str(),
        }
    }
}

impl fmt::Display for ProviderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProviderChoice {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = vec![Self::Auto];
        all.extend(ProviderKind::ALL.iter().map(|kind| Self::Explicit(*kind)));
        find_by_name(&all, Self::as_str, text)
    }
}

impl Serialize for ProviderChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProviderChoice {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
