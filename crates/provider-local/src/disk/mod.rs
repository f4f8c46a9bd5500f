//! A sandbox's disk: a file with a file system of its own (`emergent-host-disk`), or where that is
//! not to be had, a folder of the host's.
//!
//! ```text
//!  skeleton ──mkfs.ext4 -d──► template (once per size) ──copy of data extents──► disk.img
//!                                                                                   │
//!                       sandbox's mount namespace ◄──ext4── loop device ◄───────────┘
//! ```

pub(crate) mod folder;
