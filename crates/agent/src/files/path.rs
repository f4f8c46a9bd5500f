//! Paths as they come in requests, and as they are shown in answers.

use std::path::{Component, Path, PathBuf};

use crate::error::CallError;

/// The path a request means. A relative one starts at the workspace.
pub(crate) fn resolve(workspace: &Path, path: &str) -> Result<PathBuf, CallError> {
    if path.is_empty() {
        return Err(CallError::invalid("no path is given"));
    }
    if path.contains('\0') {
        return Err(CallError::invalid("the path has a NUL byte"));
    }
    Ok(workspace.join(path))
}

/// The path as answers show it: no `.`, no `..`, no slash too many. Where a `..` comes after a
/// link only the file system knows what is meant, so it is asked; links elsewhere stay.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let components: Vec<Component<'_>> = path.components().collect();
    let last = components.iter().rposition(|component| *component == Component::ParentDir);
    let (up, rest) = components.split_at(last.map_or(0, |last| last + 1));
    let (up, rest): (PathBuf, PathBuf) = (up.iter().collect(), rest.iter().collect());
    if up.as_os_str().is_empty() {
        return rest;
    }
    match std::fs::canonicalize(&up) {
        Ok(up) if rest.as_os_str().is_empty() => up,
        Ok(up) => up.join(rest),
        // Nothing is there, and that is what the answer says.
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_show_plain_paths() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(root.join("c")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        let check = |path: &str, expect: &str| {
            let seen = plain(&root.join(path));
            let expect: PathBuf = root.join(expect).components().collect();
            assert_eq!(seen.as_os_str(), expect.as_os_str(), "{path}");
        };
        check("./a/./b//", "a/b");
        check("a/../c/.", "c");
        check("link/x", "link/x");
        check("link/../b/x", "a/b/x");
        check("c/../link/x", "link/x");
        check("a/b/../../a/..", "");
        assert_eq!(plain(Path::new("/no/such/../x")), Path::new("/no/such/../x"));
        assert_eq!(plain(Path::new("/..")), Path::new("/"));
    }

    #[test]
    fn relative_paths_start_at_the_workspace() {
        let check = |path: &str, expect: Option<&str>| {
            let resolved = resolve(Path::new("/workspace"), path).ok();
            assert_eq!(resolved.as_deref(), expect.map(Path::new), "{path:?}");
        };
        check("a/b", Some("/workspace/a/b"));
        check("/etc/passwd", Some("/etc/passwd"));
        check("../x", Some("/workspace/../x"));
        check("-rf", Some("/workspace/-rf"));
        check("", None);
        check("a\0b", None);
    }
}
