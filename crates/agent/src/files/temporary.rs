//! Names of temporary files, by which they are known again: a watch does not show them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = ".emergent-";
const SUFFIX_NEW: &str = ".new.tmp";
const SUFFIX: &str = ".tmp";

/// What a temporary file will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Temporary {
    /// A file that was not there before.
    IsNew,
    /// The new content of a file that was.
    Replaces,
}

impl Temporary {
    /// A name that no other file of this agent's has.
    pub(super) fn name(self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = rustix::process::getpid().as_raw_pid();
        let suffix = match self {
            Self::IsNew => SUFFIX_NEW,
            Self::Replaces => SUFFIX,
        };
        PathBuf::from(format!("{PREFIX}{process}-{number}{suffix}"))
    }
}

/// Whether a name is that of a temporary file of an agent's, and what for.
pub(crate) fn own_temporary(name: &OsStr) -> Option<Temporary> {
    let numbers = name.to_str()?.strip_prefix(PREFIX)?;
    let (numbers, kind) = match (numbers.strip_suffix(SUFFIX_NEW), numbers.strip_suffix(SUFFIX)) {
        (Some(numbers), _) => (numbers, Temporary::IsNew),
        (None, Some(numbers)) => (numbers, Temporary::Replaces),
        (None, None) => return None,
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (process, number) = numbers.split_once('-')?;
    (is_number(process) && is_number(number)).then_some(kind)
}

/// Whether what the kernel tells of is a file without a name. It calls it `#` and a number,
/// and no folder has it.
pub(crate) fn is_unnamed(name: &OsStr, path: &Path) -> bool {
    let number = name.as_encoded_bytes().strip_prefix(b"#").unwrap_or_default();
    !number.is_empty() && number.iter().all(u8::is_ascii_digit) && std::fs::symlink_metadata(path).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_known() {
        let check = |name: &str, expect: Option<Temporary>| {
            assert_eq!(own_temporary(OsStr::new(name)), expect, "{name}");
        };
        for kind in [Temporary::IsNew, Temporary::Replaces] {
            check(kind.name().to_str().unwrap(), Some(kind));
        }
        check(".emergent-1-2.tmp", Some(Temporary::Replaces));
        check(".emergent-1-2.new.tmp", Some(Temporary::IsNew));
        check(".emergent-1.tmp", None);
        check(".emergent-a-1.tmp", None);
        check("emergent-1-2.tmp", None);
        check(".emergent-1-2.tmp~", None);
    }
}
