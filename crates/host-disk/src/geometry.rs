//! How large a disk is, and how many files it holds.

/// The least disk that holds a base system's own files and leaves room to work.
pub const MIN_BYTES: u64 = 16 << 20;

/// The block size. Sizes are rounded down to it.
const BLOCK: u64 = 4096;

/// How a disk of a given size is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    bytes: u64,
    inodes: u64,
}

impl Geometry {
    /// One file for every 16 KiB, at least 4,096 and at most 1,048,576: more files than that
    /// would let a sandbox fill the host's inode cache long before its disk.
    pub fn for_size(asked: u64) -> Self {
        Self { bytes: asked / BLOCK * BLOCK, inodes: (asked / (16 << 10)).clamp(4096, 1 << 20) }
    }

    /// The size of the file.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// How many files and folders there can be.
    pub fn inodes(self) -> u64 {
        self.inodes
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
