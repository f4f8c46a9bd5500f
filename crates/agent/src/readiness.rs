//! Descriptors that tokio has no type for, waited for by its runtime.

#![expect(unsafe_code, reason = "the runtime cannot see that a descriptor stays open")]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// Has the runtime watch a descriptor that does not block.
pub(crate) fn watched(descriptor: Arc<OwnedFd>) -> Result<AsyncFd<Arc<OwnedFd>>, Errno> {
    // SAFETY: an owned descriptor stays open, and the same, for as long as its owner lives,
    // and the answer holds the owner.
    let registered = unsafe { AsyncFd::register(descriptor) };
    registered.map_err(|error| Errno::from_io_error(&std::io::Error::from(error)).unwrap_or(Errno::IO))
}
