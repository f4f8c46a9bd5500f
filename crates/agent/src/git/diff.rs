//! How it differs.

use emergent_protocol::v1;

use crate::error::CallError;

use super::error::GitError;
use super::names;
use super::porcelain::{self, Budget};
use super::program::{Call, Program};

/// The most of a diff that is told; the rest is better read file by file.
const MAX_DIFF: usize = 512 << 10;

/// The diff action: the working tree against the index, or `staged` the index against HEAD, or
/// either against `base`.
pub(super) async fn diff(
    program: &Program<'_>,
    request: v1::GitDiffRequest,
) -> Result<v1::GitDiffResponse, CallError> {
    let paths = names::pathspecs("paths", &request.paths)?;
    let base = match request.base.as_str() {
        "" => None,
        base => {
            names::check_revision("base", base)?;
            let id = program.commit_id(base).await?;
            Some(id.ok_or_else(|| GitError::RefNotFound { name: base.to_owned() })?)
        }
    };
    // Every setting that would change the form, and everything that would run a program.
    let call = |form: &[&str]| {
        let words = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-relative",
            "--find-renames",
            "--submodule=short",
            "--ignore-submodules=dirty",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ];
        let staged = request.staged.then_some("--cached");
        Call::read(&words)
            .and(staged)
            .and(form.iter().copied())
            .and(base.clone())
            .and(["--"])
            .and(paths.clone())
    };
    let counted = program.ask(call(&["--numstat", "-z"])).await?;
    let printed = program.ask(call(&["--patch", "--unified=3"]).limit(MAX_DIFF)).await?;
    let mut budget = Budget::new();
    let all = porcelain::numstat(&counted.stdout);
    let total = all.len();
    let files: Vec<_> = all.into_iter().take_while(|file| budget.admits(file.path.len())).collect();
    Ok(v1::GitDiffResponse {
        diff: text(&printed.stdout, printed.cut),
        truncated: printed.cut || counted.cut || files.len() < total,
        files,
    })
}

/// As text, and whole lines only when it was cut.
fn text(diff: &[u8], cut: bool) -> String {
    let end = if cut { memchr::memrchr(b'\n', diff).map_or(0, |at| at + 1) } else { diff.len() };
    String::from_utf8_lossy(diff.get(..end).unwrap_or(diff)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_diff_ends_with_a_line() {
        assert_eq!(text(b"a\nb", false), "a\nb");
        assert_eq!(text(b"a\nb", true), "a\n");
        assert_eq!(text(b"ab", true), "");
        assert_eq!(text(b"\xff\n", true), "\u{fffd}\n");
    }
}
