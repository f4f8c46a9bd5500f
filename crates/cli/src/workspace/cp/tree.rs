//! What a folder in a workspace holds, as the workspace tells it.
//!
//! Links are told apart from what they lead to, which no path alone can do: a workspace could
//! otherwise lead a copy in circles until the disk here is full. It is asked once, in one file
//! of records, because names may hold anything but NUL.

use anyhow::ensure;

/// Prints one record for everything below a folder: its kind, its path, NUL. `$0` is the folder.
/// With nothing but what every `find` and `printf` can do.
pub(super) const LIST: &str = r#"
    list=$(mktemp) && cd -- "$0" && {
        find . -type d -exec printf 'd%s\0' {} + &&
        find . -type f -perm -u+x -exec printf 'x%s\0' {} + &&
        find . -type f ! -perm -u+x -exec printf 'f%s\0' {} + &&
        find . ! -type d ! -type f -exec printf 'o%s\0' {} +
    } > "$list" && printf %s "$list"
"#;

/// More than any folder that is meant to be copied holds.
pub(super) const MAX_LIST_BYTES: u64 = 256 << 20;

/// Everything below a folder, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// Outer ones first.
    pub(super) folders: Vec<String>,
    pub(super) files: Vec<File>,
    /// Links, pipes, sockets, devices, and names that are not UTF-8.
    pub(super) left_out: Vec<String>,
}

/// A file of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) executable: bool,
}

impl Tree {
    /// From the records of [`LIST`]. The workspace wrote them: a path that leads elsewhere is
    /// an error.
    pub(super) fn parse(records: &[u8]) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        for record in records.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let (kind, path) = record.split_at(1);
            let path = path.strip_prefix(b"./").unwrap_or(path);
            let path = match std::str::from_utf8(path) {
                Ok(".") => continue,
                Ok(path) => path,
                Err(_) => {
                    tree.left_out.push(String::from_utf8_lossy(path).into_owned());
                    continue;
                }
            };
            for name in path.split('/') {
                super::safe_name(name)?;
            }
            match kind {
                b"d" => tree.folders.push(path.to_owned()),
                b"f" | b"x" => {
                    tree.files.push(File { path: path.to_owned(), executable: kind == b"x" });
                }
                _ => tree.left_out.push(path.to_owned()),
            }
        }
        tree.folders.sort();
        ensure!(tree.folders.len() + tree.files.len() <= 1_000_000, "more than a million files");
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_a_tree() {
        let tree = Tree::parse(b"d.\0d./a\0d./a/b\0f./a/x\ny\0x./run\0o./link\0f./a\xff\0").unwrap();
        assert_eq!(tree.folders, ["a", "a/b"]);
        let file = |path: &str, executable| File { path: path.to_owned(), executable };
        assert_eq!(tree.files, [file("a/x\ny", false), file("run", true)]);
        assert_eq!(tree.left_out, ["link", "a\u{fffd}"]);
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for bad in ["f../x", "f./../x", "f/etc/passwd", "d./a//b", "f./a/..", "f"] {
            assert!(Tree::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
