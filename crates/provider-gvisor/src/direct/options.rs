//! What a provider without Docker is made with.

use std::borrow::Cow;
use std::path::PathBuf;

use emergent_host_net::Cidr;
use emergent_types::InstallationId;

/// What a [`DirectProvider`](crate::DirectProvider) is made with.
#[derive(Clone)]
pub struct DirectOptions {
    /// Where disks and images are kept; a folder of this installation alone.
    pub data_dir: PathBuf,
    /// Whose sandboxes these are. Part of every name outside this process.
    pub installation: InstallationId,
    /// The program that becomes PID 1 of every sandbox.
    pub agent: Cow<'static, [u8]>,
    /// gVisor's program; see [`find_runsc`](crate::find_runsc).
    pub runsc: PathBuf,
    /// The image of sandboxes whose request names none.
    pub default_image: String,
    /// Ranges that sandboxes may reach although they are denied by default. The host's own addresses
    /// stay closed.
    pub egress_allow: Vec<Cidr>,
}

impl std::fmt::Debug for DirectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectOptions")
            .field("data_dir", &self.data_dir)
            .field("installation", &self.installation)
            .field("runsc", &self.runsc)
            .finish_non_exhaustive()
    }
}
