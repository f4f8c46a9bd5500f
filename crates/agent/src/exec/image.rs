//! Everything the kernel is handed in `execve`, laid out before there is a process: in that nothing
//! may be allocated.

use std::ffi::{CStr, CString};

use rustix::process::{Gid, Uid};

/// Another account to become.
pub(super) struct Identity {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    pub(super) groups: Vec<Gid>,
}

/// A program ready to be executed.
pub(super) struct Image {
    /// Full paths, tried in order.
    pub(super) candidates: Vec<CString>,
    pub(super) arguments: Vec<CString>,
    /// `NAME=value` each.
    pub(super) environment: Vec<CString>,
    pub(super) folder: CString,
    /// `None` stays who the agent is.
    pub(super) identity: Option<Identity>,
    /// How many processes its account may have, where the kernel is to be told so by the command.
    pub(super) process_limit: Option<u64>,
}

impl Image {
    /// The name it was asked for by.
    pub(super) fn name(&self) -> &CStr {
        self.arguments.first().map_or(c"", CString::as_c_str)
    }
}
