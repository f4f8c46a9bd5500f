//! Who this installation is.

use emergent_types::InstallationId;

use crate::SecretKey;

/// One installation, which is one database. Made when the database is first opened, never
/// changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Carried by every resource that belongs to this installation.
    pub id: InstallationId,
    /// Random, known to nobody else: other keys (such as each sandbox's agent key) are derived
    /// from it.
    pub secret: SecretKey,
}
