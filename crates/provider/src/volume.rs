//! Volumes with names: disks that outlive the sandboxes they are mounted in.

use std::fmt;
use std::str::FromStr;

use emergent_types::ByteSize;

/// Longer names are of no use, and some engines have little room for them.
const MAX_NAME: usize = 40;

/// Longer paths are a mistake.
const MAX_TARGET: usize = 200;

/// Where every sandbox has something of its own that a volume must not hide.
const RESERVED: [&str; 9] =
    ["/proc", "/sys", "/dev", "/run", "/tmp", "/etc", "/usr", "/workspace", "/.emergent"];

/// The name of a volume within an installation: lower-case letters, digits and hyphens, and a letter or a
/// digit first. It becomes part of names outside this process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeName(String);

/// Text that cannot be the name or the place of a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadVolume {
    /// Not a name.
    #[error("{0:?} is not the name of a volume: up to 40 lower-case letters, digits and hyphens")]
    Name(String),
    /// Not a place.
    #[error(
        "a volume cannot be mounted at {0:?}: expected an absolute path of plain parts, outside the system's own folders"
    )]
    Target(String),
}

impl VolumeName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VolumeName {
    type Err = BadVolume;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || byte == b'-');
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(BadVolume::Name(text.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A volume in its place in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeMount {
    name: VolumeName,
    target: String,
    size: ByteSize,
}

impl VolumeMount {
    /// A volume at an absolute path. The size counts when the volume is made, which it is when the first
    /// sandbox has it; one that is there keeps its own.
    pub fn new(name: VolumeName, target: &str, size: ByteSize) -> Result<Self, BadVolume> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let part = |part: &str| !part.is_empty() && ![".", ".."].contains(&part) && part.bytes().all(plain);
        let is_place = target.len() <= MAX_TARGET
            && target.strip_prefix('/').is_some_and(|parts| parts.split('/').all(part))
            && !RESERVED.iter().any(|folder| target == *folder || target.starts_with(&format!("{folder}/")));
        match is_place {
            true => Ok(Self { name, target: target.to_owned(), size }),
            false => Err(BadVolume::Target(target.chars().take(MAX_TARGET).collect())),
        }
    }

    /// Which.
    pub fn name(&self) -> &VolumeName {
        &self.name
    }

    /// Where.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// How large it is made.
    pub fn size(&self) -> ByteSize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["a", "0", "mcp-data-1", &"x".repeat(40)] {
            assert_eq!(name.parse::<VolumeName>().map(|name| name.to_string()), Ok(name.to_owned()));
        }
        for name in ["", "-a", "A", "a/b", "../a", "a b", "ä", "a\n", &"x".repeat(41)] {
            assert!(name.parse::<VolumeName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn places_are_absolute_and_hide_nothing_of_the_system() {
        let check = |target: &str, expect: bool| {
            let name: VolumeName = "data".parse().unwrap();
            let made = VolumeMount::new(name, target, ByteSize::from_mib(16));
            assert_eq!(made.is_ok(), expect, "{target:?}");
        };
        for target in ["/data", "/var/lib/postgresql", "/home/user/.cache", "/etcetera", "/opt/a_b-c.d"] {
            check(target, true);
        }
        for target in [
            "",
            "/",
            "data",
            "/a/../b",
            "/a/./b",
            "/a//b",
            "/a/",
            "/a b",
            "/a:b",
            "/proc",
            "/etc/x",
            "/usr/lib",
            "/workspace",
            "/workspace/x",
            "/tmp/x",
            "/.emergent",
            "/a\0b",
        ] {
            check(target, false);
        }
    }
}
