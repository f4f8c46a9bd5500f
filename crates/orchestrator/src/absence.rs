//! Providers that this installation knows of and does not use.

use std::fmt;

use emergent_types::ProviderKind;

/// A provider that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentProvider {
    /// Which.
    pub kind: ProviderKind,
    /// Why.
    pub absence: Absence,
}

/// Why a provider is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// The administrator has left it out: whoever names it is refused.
    LeftOut,
    /// There is nothing here that it could work with.
    NotFound(String),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut => f.write_str("it is left out by the configuration of this server"),
            Self::NotFound(reason) => f.write_str(reason),
        }
    }
}
