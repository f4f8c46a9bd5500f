//! What is mounted, as the kernel tells it to this process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) point: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: OsString,
}

/// What is mounted on this folder and below it, the oldest first. The folder's path must be
/// canonical.
pub(crate) fn mounts_within(folder: &Path) -> io::Result<Vec<MountEntry>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let entries = table.split(|byte| *byte == b'\n').filter_map(parse);
    Ok(entries.filter(|entry| entry.point.starts_with(folder)).collect())
}

/// `36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/source rw`
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = fields.nth(4)?;
    // A number of optional fields, ended by a dash.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(rest.next()?).into_owned();
    let source = unescape(rest.next()?);
    Some(MountEntry { point: unescape(point).into(), kind, source })
}

/// Spaces, tabs, line ends, backslashes and hashes are written as three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                plain.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => plain.push(*first),
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn lines_with_any_number_of_optional_fields_are_read() {
        let check = |line: &str, point: &str, kind: &str, source: &str| {
            let expected = MountEntry { point: point.into(), kind: kind.into(), source: source.into() };
            assert_eq!(parse(line.as_bytes()), Some(expected), "{line}");
        };
        check("36 35 98:0 / /mnt rw - ext4 /dev/loop3 rw", "/mnt", "ext4", "/dev/loop3");
        check("36 35 98:0 / /a rw shared:1 master:2 - overlay x:1 rw,lowerdir=a - b", "/a", "overlay", "x:1");
        check(
            r"1 2 0:5 / /a\040b\011\012c,d:e\134f\043 rw - tmpfs none rw",
            "/a b\t\nc,d:e\\f#",
            "tmpfs",
            "none",
        );
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:0 / /mnt rw shared:1"), None);
    }

    #[test]
    fn bytes_that_are_not_text_and_escapes_that_are_none_stay() {
        assert_eq!(unescape(b"/a\xff\\04\\999\\").as_bytes(), b"/a\xff\\04\\999\\");
    }

    #[test]
    fn a_folder_with_the_same_beginning_is_another() {
        let everything = mounts_within(Path::new("/")).unwrap();
        assert!(everything.iter().any(|entry| entry.point == Path::new("/proc")));
        assert!(mounts_within(Path::new("/pro")).unwrap().is_empty());
    }
}
