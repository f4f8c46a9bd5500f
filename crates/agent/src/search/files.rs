//! The glob tool: files whose path matches, the newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use emergent_protocol::v1;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::agent::Shared;
use crate::error::CallError;

use super::pattern::Pattern;
use super::walk::{self, Options, Visitor};
use super::{check_pattern, kind_at, limit_of, place, plain, searching};

/// The most bytes of paths in an answer, far below the message limit.
const ANSWER_BYTES: usize = 2 << 20;

/// Characters that make more of a name than a name.
const SPECIAL: [char; 6] = ['*', '?', '[', '{', '}', '\\'];

/// Files whose path matches.
pub(crate) async fn glob(
    shared: &Arc<Shared>,
    request: v1::GlobRequest,
) -> Result<v1::GlobResponse, CallError> {
    check_pattern(&request.pattern)?;
    let limit = limit_of(request.limit)?;
    let workspace = shared.workspace.clone();
    searching(move |stop| {
        let root = place(&workspace, &request.path)?;
        let written = without_dots(&request.pattern);
        let (root, pattern) = match split_absolute(&written) {
            Some((root, pattern)) => {
                // A pattern about nothing matches nothing; only a `path` must be there.
                match rustix::fs::stat(&root) {
                    Err(Errno::NOENT | Errno::NOTDIR) => {
                        Pattern::parse(pattern, "pattern")?;
                        return Ok(v1::GlobResponse::default());
                    }
                    _ => (root, pattern),
                }
            }
            None => (plain(&root), written.as_str()),
        };
        let pattern = Pattern::parse(pattern, "pattern")?;
        let mut newest =
            Newest { pattern: &pattern, limit, total: 0, has_missed: false, heap: BinaryHeap::new() };
        if kind_at(&root)? == FileType::Directory {
            let hidden = pattern.names_dot;
            let options = Options { include_ignored: request.include_ignored, hidden };
            walk::walk(&root, options, stop, &mut newest)?;
        } else if let Some(name) = root.file_name() {
            let name = name.as_encoded_bytes().to_vec();
            let _ = newest.file(&root, &name, false)?;
        }
        Ok(newest.finish())
    })
    .await
}

/// The same pattern without the dots that mean the folder they stand in: no path that is found has
/// any.
fn without_dots(pattern: &str) -> String {
    let mut pattern = pattern.trim_start_matches("./").to_owned();
    while pattern.contains("/./") {
        pattern = pattern.replace("/./", "/");
    }
    pattern
}

/// A pattern that begins with a slash: the folders that it names, and the rest.
fn split_absolute(pattern: &str) -> Option<(PathBuf, &str)> {
    let mut rest = pattern.strip_prefix('/')?;
    let mut root = PathBuf::from("/");
    while let Some((name, below)) = rest.split_once('/').filter(|(name, _)| !name.contains(SPECIAL)) {
        root.push(name);
        rest = below.trim_start_matches('/');
    }
    Some((root, rest))
}

/// The newest files so far.
struct Newest<'a> {
    pattern: &'a Pattern,
    limit: usize,
    total: usize,
    /// There is something that may match and has a path longer than paths may be.
    has_missed: bool,
    /// The one to give up first is on top: the oldest, and of two equally old the later name.
    heap: BinaryHeap<(Reverse<(i64, i64)>, PathBuf)>,
}

impl Visitor for Newest<'_> {
    fn enters(&mut self, relative: &[u8]) -> bool {
        self.pattern.enters(relative)
    }

    fn file(&mut self, path: &Path, relative: &[u8], is_link: bool) -> Result<ControlFlow<()>, CallError> {
        if !self.pattern.matches(relative) {
            return Ok(ControlFlow::Continue(()));
        }
        // A link to a file is a file; one to a folder, or to nothing, is not.
        let stat = match rustix::fs::stat(path) {
            Ok(stat) => stat,
            Err(errno) => {
                self.has_missed |= errno == Errno::NAMETOOLONG;
                return Ok(ControlFlow::Continue(()));
            }
        };
        if is_link && FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(ControlFlow::Continue(()));
        }
        self.total += 1;
        let age = Reverse((stat.st_mtime, stat.st_mtime_nsec as i64));
        if self.heap.len() == self.limit {
            match self.heap.peek_mut() {
                Some(mut top) if (age, path) < (top.0, top.1.as_path()) => *top = (age, path.to_owned()),
                _ => {}
            }
        } else {
            self.heap.push((age, path.to_owned()));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn too_deep(&mut self) {
        self.has_missed = true;
    }
}

impl Newest<'_> {
    fn finish(self) -> v1::GlobResponse {
        let mut bytes = 0;
        let files: Vec<_> = self
            .heap
            .into_sorted_vec()
            .into_iter()
            .map(|(_, path)| path.to_string_lossy().into_owned())
            .take_while(|path| {
                bytes += path.len();
                bytes <= ANSWER_BYTES
            })
            .collect();
        let truncated = self.has_missed || files.len() < self.total;
        v1::GlobResponse { files, truncated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_between_slashes_is_nothing() {
        for (pattern, expect) in [
            ("././src/././main.rs", "src/main.rs"),
            ("/a/./b/*", "/a/b/*"),
            (".env", ".env"),
            ("a/.b/c.", "a/.b/c."),
        ] {
            assert_eq!(without_dots(pattern), expect);
        }
    }

    #[test]
    fn absolute_patterns_begin_where_their_names_end() {
        let check = |pattern: &str, expect: Option<(&str, &str)>| {
            let split = split_absolute(pattern);
            let split = split.as_ref().map(|(root, rest)| (root.to_str().unwrap(), *rest));
            assert_eq!(split, expect, "{pattern}");
        };
        check("*.rs", None);
        check("/workspace/src/**/*.rs", Some(("/workspace/src", "**/*.rs")));
        check("/workspace//a.rs", Some(("/workspace", "a.rs")));
        check("/{a,b}/c", Some(("/", "{a,b}/c")));
        check("/*", Some(("/", "*")));
    }
}
