//! A path below the root of an image, as a list of names: there is no way to say more with it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::error::{Limit, UnpackError};
use super::limits::Limits;

/// Names from the root down; none for the root itself. Not one of them is empty, `.` or `..`, or
/// has a slash or a zero byte in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RootPath(Vec<OsString>);

impl RootPath {
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, UnpackError> {
        if bytes.len() > limits.path_bytes {
            return Err(UnpackError::TooMuch { what: Limit::PathBytes, allowed: limits.path_bytes as u64 });
        }
        let outside = || UnpackError::Outside { path: OsStr::from_bytes(bytes).into() };
        if bytes.is_empty() || bytes.starts_with(b"/") || bytes.contains(&0) {
            return Err(outside());
        }
        let mut names = Vec::new();
        for name in bytes.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return Err(outside()),
                name => names.push(OsStr::from_bytes(name).to_owned()),
            }
        }
        if names.len() > limits.depth {
            return Err(UnpackError::TooMuch { what: Limit::Depth, allowed: limits.depth as u64 });
        }
        Ok(Self(names))
    }

    /// The folder something lies in and its name there; nothing for the root.
    pub(super) fn split(&self) -> Option<(&[OsString], &OsStr)> {
        self.0.split_last().map(|(name, parents)| (parents, name.as_os_str()))
    }

    /// For messages.
    pub(super) fn display(&self) -> PathBuf {
        if self.0.is_empty() { ".".into() } else { self.0.iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &[u8], expect: Option<&str>) {
        let parsed = RootPath::parse(path, &Limits::default()).ok().map(|parsed| parsed.display());
        assert_eq!(parsed, expect.map(PathBuf::from), "{}", path.escape_ascii());
    }

    #[test]
    fn only_names_below_the_root() {
        check(b"usr/bin/env", Some("usr/bin/env"));
        check(b"./usr//bin/./", Some("usr/bin"));
        check(b"./", Some("."));
        check(b".hidden/...", Some(".hidden/..."));
        check(b"", None);
        check(b"/etc/passwd", None);
        check(b"//etc", None);
        check(b"..", None);
        check(b"usr/../../etc", None);
        check(b"usr/..", None);
        check(b"a\0b", None);
    }

    #[test]
    fn paths_are_bounded() {
        let limits = Limits { path_bytes: 10, depth: 3, ..Limits::default() };
        assert!(RootPath::parse(b"a/b/c", &limits).is_ok());
        assert!(RootPath::parse(b"a/b/c/d", &limits).is_err());
        assert!(RootPath::parse(b"aaaaaaaaaaa", &limits).is_err());
    }
}
