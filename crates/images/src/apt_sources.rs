//! Where the host's distribution gets its packages from: what an image made of it, or on it, can
//! use as well. Only the distribution's own sources, not those somebody has added, and none with a
//! password in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A list of package sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AptSource {
    /// From the root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Longer lists are none.
const MAX_FILE: u64 = 1 << 20;

pub(crate) fn of_host(root: &Path) -> Vec<AptSource> {
    let mut paths = vec![PathBuf::from("etc/apt/sources.list")];
    for name in distribution(root) {
        for extension in ["sources", "list"] {
            paths.push(format!("etc/apt/sources.list.d/{name}.{extension}").into());
        }
    }
    paths.into_iter().filter_map(|path| read(root, path)).collect()
}

fn read(root: &Path, path: PathBuf) -> Option<AptSource> {
    let text = read_public(&root.join(&path))?;
    let text: String = text
        .lines()
        // A disc in the host's drive.
        .filter(|line| !line.contains("cdrom:"))
        .map(|line| format!("{}\n", with_mirrors(root, line)))
        .collect();
    let names_packages = text.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with("deb ")
            || line.starts_with("deb\t")
            || line.starts_with("deb [")
            || line.starts_with("URIs:")
    });
    (names_packages && !has_password(&text)).then_some(AptSource { path, text })
}

/// Names of the distribution, as its own list of sources may be called: `debian`, `ubuntu`.
fn distribution(root: &Path) -> Vec<String> {
    let release = fs::read_to_string(root.join("etc/os-release"))
        .or_else(|_| fs::read_to_string(root.join("usr/lib/os-release")))
        .unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for line in release.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        if key == "ID" || key == "ID_LIKE" {
            let words = value.trim_matches(['"', '\'']).split_whitespace();
            let plain =
                |word: &&str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
            names.extend(words.filter(plain).map(str::to_owned));
        }
    }
    names
}

/// Replaces a list of mirrors, which is a file of the host, by the first of them.
fn with_mirrors(root: &Path, line: &str) -> String {
    const LIST: &str = "mirror+file:";
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for word in &mut words {
        if let Some(list) = word.strip_prefix(LIST) {
            let list = root.join(list.trim_start_matches('/'));
            let mirrors = read_public(&list).unwrap_or_default();
            let first =
                mirrors.lines().map(str::trim).find(|mirror| !mirror.is_empty() && !mirror.starts_with('#'));
            if let Some(mirror) = first.and_then(|mirror| mirror.split_whitespace().next()) {
                *word = mirror.to_owned();
            }
        }
    }
    words.join(" ")
}

/// `https://name:password@mirror/`.
pub(crate) fn has_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(|letter: char| letter == '/' || letter.is_whitespace()).next();
        authority.is_some_and(|authority| authority.contains('@'))
    })
}

fn read_public(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let public = metadata.is_file() && metadata.mode() & 0o004 != 0 && metadata.len() <= MAX_FILE;
    public.then(|| fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        root
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let root = host(files);
        of_host(root.path()).into_iter().map(|source| source.text).collect()
    }

    const RELEASE: (&str, &str) = ("etc/os-release", "NAME=\"X\"\nID=debian\nID_LIKE=\"../evil ubuntu\"\n");

    #[test]
    fn the_distributions_own_sources() {
        let texts = found(&[
            RELEASE,
            ("etc/apt/sources.list", "# moved\n"),
            ("etc/apt/sources.list.d/debian.sources", "Types: deb\nURIs: http://mirror.test/debian\n"),
            ("etc/apt/sources.list.d/vendor.sources", "Types: deb\nURIs: http://vendor.test\n"),
        ]);
        assert_eq!(texts, ["Types: deb\nURIs: http://mirror.test/debian\n"]);
    }

    #[test]
    fn discs_are_left_out() {
        let texts =
            found(&[("etc/apt/sources.list", "deb cdrom:[X]/ a main\ndeb http://mirror.test a main\n")]);
        assert_eq!(texts, ["deb http://mirror.test a main\n"]);
    }

    #[test]
    fn sources_with_a_password_are_left_out() {
        for text in ["deb http://me:secret@mirror.test/x a main\n", "deb https://token@mirror.test a main\n"]
        {
            assert_eq!(found(&[("etc/apt/sources.list", text)]), [""; 0]);
        }
        let fine = "deb http://mirror.test/x@y a main\n";
        assert_eq!(found(&[("etc/apt/sources.list", fine)]), [fine]);
    }

    #[test]
    fn sources_that_not_everybody_may_read_are_left_out() {
        let root = host(&[("etc/apt/sources.list", "deb http://mirror.test a main\n")]);
        let path = root.path().join("etc/apt/sources.list");
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(of_host(root.path()), []);
    }

    #[test]
    fn lists_of_mirrors_become_their_first() {
        let texts = found(&[
            RELEASE,
            ("etc/apt/mirrors/debian.list", "# ours\nhttps://near.test/debian\nhttps://far.test/debian\n"),
            (
                "etc/apt/sources.list.d/debian.sources",
                "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\n",
            ),
        ]);
        assert_eq!(texts, ["Types: deb\nURIs: https://near.test/debian\n"]);
    }
}
