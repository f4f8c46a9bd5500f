//! How strongly a workspace is separated from the host.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Isolation levels, weakest first, so that `a >= b` reads "a is at least as strong as b".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum IsolationLevel {
    /// Linux namespaces and seccomp on the host's own kernel.
    Container,
    /// gVisor's application kernel between the sandbox and the host.
    Gvisor,
    /// A hardware-virtualised machine with a kernel of its own.
    Microvm,
}

impl IsolationLevel {
    /// Every level, weakest first.
    pub const ALL: [Self; 3] = [Self::Container, Self::Gvisor, Self::Microvm];

    /// The level's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
        }
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for IsolationLevel {
    type Err = crate::UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        crate::workspace::find_by_name(&Self::ALL, Self::as_str, text)
    }
}

#[cfg(test)]
mod tests {
    use super::IsolationLevel::*;

    #[test]
    fn stronger_compares_greater() {
        assert!(Microvm > Gvisor && Gvisor > Container);
    }
}
