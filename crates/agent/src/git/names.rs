//! Names in requests: branches, revisions, paths. All of them reach git as data, whatever they
//! look like; those that could be taken for something else are refused.

use super::error::GitError;

/// The longest name of a branch or revision.
const MAX_NAME: usize = 1000;

/// The most bytes of paths in one request that go into arguments.
const MAX_PATH_BYTES: usize = 512 << 10;

/// Checks the name of a branch by the rules of `git check-ref-format --branch`, and that people
/// can see what it says.
pub(super) fn check_branch(field: &'static str, name: &str) -> Result<(), GitError> {
    check_revision(field, name)?;
    let is_component = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_branch = !name.contains([' ', '~', '^', '?', '*', '[', '\\'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name != "@"
        && name != "HEAD"
        && name.split('/').all(is_component);
    if is_branch {
        Ok(())
    } else {
        Err(GitError::invalid(field, format!("{name:?} cannot be the name of a branch")))
    }
}

/// Checks something that names one commit: a branch, tag, id, `HEAD~2`.
pub(super) fn check_revision(field: &'static str, name: &str) -> Result<(), GitError> {
    let reason = if name.is_empty() {
        "is missing"
    } else if name.len() > MAX_NAME {
        "is too long"
    } else if name.starts_with('-') {
        "begins with a dash"
    } else if name.contains(':') || name.contains("{/") {
        // A path inside a commit, or a search through messages.
        "names no commit"
    } else if name.contains(is_deceptive) {
        "has blanks or invisible characters"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(100).collect();
    Err(GitError::invalid(field, format!("{field} {reason}: {shown:?}")))
}

/// What does not show, or shows as something else.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Paths as git takes them, without any pattern in them: absolute, or from the folder that git
/// runs in.
pub(super) fn pathspecs(field: &'static str, paths: &[String]) -> Result<Vec<String>, GitError> {
    if paths.iter().map(String::len).sum::<usize>() > MAX_PATH_BYTES {
        return Err(GitError::invalid(field, format!("{field} are more than {MAX_PATH_BYTES} bytes")));
    }
    paths.iter().map(|path| pathspec(field, path)).collect()
}

fn pathspec(field: &'static str, path: &str) -> Result<String, GitError> {
    if path.is_empty() || path.contains('\0') {
        return Err(GitError::invalid(field, format!("{field}: {path:?} is not a path")));
    }
    Ok(format!("{LITERAL}{path}"))
}

/// What stands before a path that is nothing but a path.
pub(super) const LITERAL: &str = ":(literal)";

/// The same for one that starts at the root of the repository, as those that git prints.
pub(super) const FROM_ROOT: &str = ":(top,literal)";

/// Where a path from a folder of the repository is from its root; `prefix` is that folder. `None`
/// when it is absolute or leads out.
pub(super) fn from_root(prefix: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts = Vec::new();
    for part in prefix.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names() {
        for good in ["main", "feature/x", "a-b_c.d", "ä", "v1", "@x", "x@y"] {
            assert!(check_branch("name", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-x",
            "--delete",
            "a..b",
            "a b",
            "a\u{3000}b",
            "a\nb",
            "a\u{7f}",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "@",
            "a@{1}",
            "HEAD",
            "a\u{202e}b",
            "\u{feff}a",
        ] {
            assert!(check_branch("name", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn revisions() {
        for good in ["HEAD", "HEAD~2", "v1^{commit}", "main@{1}", "origin/main", "0123abc"] {
            assert!(check_revision("ref", good).is_ok(), "{good}");
        }
        for bad in
            ["", "-n1", "--output=x", "HEAD:a", ":/fix", "HEAD^{/fix}", "a b", "a\0", &"x".repeat(2000)]
        {
            let error = check_revision("ref", bad).expect_err(bad);
            assert_eq!(error.field(), "ref");
        }
    }

    #[test]
    fn paths_are_literal() {
        let paths = ["*.rs", ":(exclude)x", "-x", "/abs", "a\nb"].map(str::to_owned);
        let specs = pathspecs("files", &paths).unwrap();
        assert_eq!(
            specs,
            [":(literal)*.rs", ":(literal):(exclude)x", ":(literal)-x", ":(literal)/abs", ":(literal)a\nb"]
        );
        for bad in ["", "a\0b"] {
            assert!(pathspecs("files", &[bad.to_owned()]).is_err());
        }
        assert!(pathspecs("files", &["x".repeat(MAX_PATH_BYTES + 1)]).is_err());
    }

    #[test]
    fn paths_from_a_folder() {
        let check = |prefix: &str, path: &str, expect: Option<&str>| {
            assert_eq!(from_root(prefix, path).as_deref(), expect, "{prefix} {path}");
        };
        check("", "./a//b/", Some("a/b"));
        check("sub/", "a", Some("sub/a"));
        check("sub/", "../a", Some("a"));
        check("sub/", ".", Some("sub"));
        check("sub/", "../../a", None);
        check("sub/", "/a", None);
    }
}
