//! The user namespace of a sandbox. Made before everything else, because the disk's ids are
//! shifted by it; `libcontainer` is told to join it.

use std::fs::{self, File};
use std::io;

use super::kernel;
use crate::uid_range::UidRange;

/// Makes a user namespace whose root is the first id of the range. The namespace lives as
/// long as the file, a process in it or a mount shifted by it.
pub(crate) fn make(ids: UidRange) -> io::Result<File> {
    kernel::with_new_user_namespace(|pid| {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        fs::write(format!("{proc}/uid_map"), ids.as_id_map())?;
        fs::write(format!("{proc}/gid_map"), ids.as_id_map())?;
        File::open(format!("{proc}/ns/user"))
    })
}
