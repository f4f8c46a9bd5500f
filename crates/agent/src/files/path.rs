//! Paths as they come in requests.

use std::path::{Path, PathBuf};

use crate::error::CallError;

/// The path a request means. A relative one starts at the workspace.
pub(super) fn resolve(workspace: &Path, path: &str) -> Result<PathBuf, CallError> {
    if path.is_empty() {
        return Err(CallError::invalid("no path is given"));
    }
    if path.contains('\0') {
        return Err(CallError::invalid("the path has a NUL byte"));
    }
    Ok(workspace.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

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
