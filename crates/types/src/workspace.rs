//! Small closed vocabularies of a workspace, with their names on the wire and in the
//! database.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name outside one of the closed vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {given:?}; expected one of: {expected}")]
pub struct UnknownName {
    given: String,
    expected: String,
}

pub(crate) fn find_by_name<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
    text: &str,
) -> Result<T, UnknownName> {
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| UnknownName {
        given: text.chars().take(64).collect(),
        expected: all.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", "),
    })
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value's name on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                find_by_name(Self::ALL, Self::as_str, text)
            }
        }
    };
}

pub(crate) use vocabulary;

vocabulary! {
    /// What a row stands for: a place for an agent to work, or a hosted MCP server.
    ContainerType {
        /// An agent's workspace.
        AgentWorkspace = "agent_workspace",
        /// A hosted MCP server.
        McpServer = "mcp_server",
    }
}

vocabulary! {
    /// Whether a row expires.
    Lifecycle {
        /// Lives as long as it is used, plus its TTL.
        Ephemeral = "ephemeral",
        /// Lives until it is deleted.
        Persistent = "persistent",
    }
}

vocabulary! {
    /// Where sandboxes may be placed by automatic selection.
    DeploymentMode {
        /// On hosts of the installation only.
        SelfHosted = "self-hosted",
        /// In a managed cloud first, where one is configured.
        Managed = "managed",
    }
}

vocabulary! {
    /// What a sandbox can reach over the network.
    NetworkMode {
        /// The internet, but neither the host nor private ranges nor other sandboxes.
        Internet = "internet",
        /// Nothing at all; loopback inside the sandbox works.
        Isolated = "isolated",
    }
}

vocabulary! {
    /// What stop and resume keep.
    Persistence {
        /// The whole root, all but `/tmp`, `/run` and `/dev/shm`.
        Full = "full",
        /// `/workspace` and the home folders only.
        Home = "home",
    }
}

vocabulary! {
    /// What a stop keeps.
    StopMode {
        /// The files; what runs ends.
        Disk = "disk",
        /// The files and what runs, which stands still and keeps its memory.
        Memory = "memory",
    }
}

vocabulary! {
    /// How the disk limit is upheld.
    DiskEnforcement {
        /// Writes beyond it fail with ENOSPC.
        Hard = "hard",
        /// Use is watched, and tools refuse to write beyond it.
        Monitored = "monitored",
    }
}
