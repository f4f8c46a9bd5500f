//! The disks of sandboxes: sparse files with an ext4 file system of exactly the size asked for.
//! A disk holds everything a sandbox can write outside memory, so its end is a true `ENOSPC`,
//! and it holds a bounded number of files.
//!
//! ```text
//!  content ──mkfs.ext4 -d──► template (once per size) ──copy of data extents──► disk.img
//!                                                                                  │
//!                                    a mount ◄──ext4── loop device ◄───────────────┘
//! ```
//!
//! A disk that is attached is locked: the loop device holds the very file handle that the
//! lock was taken on, so the lock lives exactly as long as the attachment, whoever dies. No
//! disk is ever mounted twice, and the end of a mount can be waited for.
//!
//! Everything here waits for the kernel: async callers use `spawn_blocking`.

mod error;
mod freeze;
mod geometry;
mod grow;
mod guest_file;
mod hidden;
mod image;
mod layered;
mod loop_device;
mod mountinfo;
mod mounts;
mod one_moment;
mod snapshots;
mod template;

pub use error::DiskError;
pub use geometry::{Geometry, MIN_BYTES};
pub use grow::grow;
pub use guest_file::replace_file;
pub use hidden::HiddenDisk;
pub use image::{AttachedElsewhere, copy_sparse, lock_when_detached};
pub use layered::{DiskUsage, LayeredDisk, Unmounted};
pub use loop_device::LoopDevice;
pub use mounts::{Setting, attach, folder_in, mount_detached};
pub use snapshots::DiskSnapshots;
pub use template::{TemplateContent, TemplateError, Templates, find_mkfs};
