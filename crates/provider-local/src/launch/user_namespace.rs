//! The user namespace of a sandbox. Made before everything else, because the disk's ids are
//! shifted by it; `libcontainer` is told to join it.

use std::fs::{self, File};
use std::io;

use super::kernel;
use crate::uid_range::UidRange;

/// The namespaces a sandbox is made with.
pub(crate) struct Namespaces {
    pub(crate) user: File,
    /// Only for a sandbox that is to be connected; one that is not gets an empty one later.
    pub(crate) network: Option<File>,
}

/// Makes a user namespace whose root is the first id of the range, and if asked a network
/// namespace that belongs to it. They live as long as the files, a process in them or a mount
/// shifted by them.
pub(crate) fn make(ids: UidRange, network: bool) -> io::Result<Namespaces> {
    kernel::with_new_user_namespace(ids.first, network, |pid| {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        fs::write(format!("{proc}/uid_map"), ids.as_id_map())?;
        fs::write(format!("{proc}/gid_map"), ids.as_id_map())?;
        let network = network.then(|| File::open(format!("{proc}/ns/net"))).transpose()?;
        Ok(Namespaces { user: File::open(format!("{proc}/ns/user"))?, network })
    })
}
