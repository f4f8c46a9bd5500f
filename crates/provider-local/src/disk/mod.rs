//! A sandbox's disk: one sparse file with an ext4 file system of exactly the size asked for.
//! It holds everything the sandbox can write outside memory, so its end is a true `ENOSPC`,
//! and it holds a bounded number of files.
//!
//! ```text
//!  skeleton ──mkfs.ext4 -d──► template (once per size) ──copy of data extents──► disk.img
//!                                                                                   │
//!                       sandbox's mount namespace ◄──ext4── loop device ◄───────────┘
//! ```
//!
//! A disk that is attached is locked: the loop device holds the very file handle that the
//! lock was taken on, so the lock lives exactly as long as the attachment, whoever dies. No
//! disk is ever mounted twice, and the end of a mount can be waited for.

mod image;
mod loop_device;
mod template;

pub(crate) use image::{copy_sparse, lock_when_detached};
pub(crate) use loop_device::LoopDevice;
pub(crate) use template::{Templates, find_mkfs};

/// The least disk that holds the base system's own files and leaves room to work.
pub(crate) const MIN_BYTES: u64 = 16 << 20;

/// The block size. Sizes are rounded down to it.
const BLOCK: u64 = 4096;

/// How a disk of a given size is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl Geometry {
    /// One file for every 16 KiB, at least 4,096 and at most 1,048,576: more files than that
    /// would let a sandbox fill the host's inode cache long before its disk.
    pub(crate) fn for_size(asked: u64) -> Self {
        Self { bytes: asked / BLOCK * BLOCK, inodes: (asked / (16 << 10)).clamp(4096, 1 << 20) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_give_whole_blocks_and_bounded_inodes() {
        let check = |asked, bytes, inodes| assert_eq!(Geometry::for_size(asked), Geometry { bytes, inodes });
        check(MIN_BYTES, MIN_BYTES, 4096);
        check(MIN_BYTES + 4095, MIN_BYTES, 4096);
        check(1 << 30, 1 << 30, 65_536);
        check(10 << 30, 10 << 30, 655_360);
        check(1 << 40, 1 << 40, 1 << 20);
    }
}
