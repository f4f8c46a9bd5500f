//! What a request itself names.

use serde::{Deserialize, Serialize};

/// Which demands a request names; the others are the installation's defaults.
///
/// What is named and cannot be enforced is refused. A default that cannot be enforced is
/// dropped, and the sandbox says so in its warnings. A provider keeps this with the disk: what
/// was named for the create holds for every resume, whatever the resume says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedDemands {
    /// Processor time.
    pub cpu: bool,
    /// Memory.
    pub memory: bool,
    /// Everything it can write.
    pub disk: bool,
    /// What it may reach.
    pub network: bool,
}
