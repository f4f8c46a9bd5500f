//! Flags of `open(2)`.

use std::ops::BitOr;

use rustix::fs::OFlags;

/// Flags of `open(2)`, by the names that C gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFlags(pub(crate) OFlags);

#[expect(missing_docs, reason = "as in open(2)")]
impl OpenFlags {
    pub const O_RDONLY: Self = Self(OFlags::RDONLY);
    pub const O_WRONLY: Self = Self(OFlags::WRONLY);
    pub const O_CREAT: Self = Self(OFlags::CREATE);
    pub const O_EXCL: Self = Self(OFlags::EXCL);
    pub const O_NOFOLLOW: Self = Self(OFlags::NOFOLLOW);
    pub const O_CLOEXEC: Self = Self(OFlags::CLOEXEC);
    pub const O_DIRECTORY: Self = Self(OFlags::DIRECTORY);
}

impl BitOr for OpenFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
