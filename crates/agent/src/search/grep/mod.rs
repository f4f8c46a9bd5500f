//! The grep tool: lines that match a regular expression, in the order of path and line.

mod answer;
mod file;
mod pool;
mod reader;
mod regex;
mod shown;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use emergent_protocol::{MAX_CONTEXT_LINES, v1};
use ignore::overrides::{Override, OverrideBuilder};
use rustix::fs::FileType;

use crate::agent::Shared;
use crate::error::CallError;

use super::pattern::{check, split_list};
use super::walk::{self, Options, Visitor};
use super::{Stop, check_pattern, kind_at, limit_of, place, plain, searching};
use answer::Answer;
use file::{FileSearch, Task};
use pool::Pool;

/// Lines that match.
pub(crate) async fn grep(
    shared: &Arc<Shared>,
    request: v1::GrepRequest,
) -> Result<v1::GrepResponse, CallError> {
    check_pattern(&request.pattern)?;
    let limit = limit_of(request.limit)?;
    if request.context > MAX_CONTEXT_LINES {
        let reason = format!("the context is at most {MAX_CONTEXT_LINES} lines");
        return Err(CallError::field("context", reason));
    }
    let workspace = shared.workspace.clone();
    searching(move |stop| {
        let root = place(&workspace, &request.path)?;
        let root = plain(&root);
        let matcher = regex::matcher(&request)?;
        let task = Task {
            matcher,
            output: request.output(),
            context: request.context as usize,
            multiline: request.multiline,
        };
        let include = includes(&root, &request.include)?;
        match kind_at(&root)? {
            FileType::Directory => {
                let options = Options { include_ignored: request.include_ignored, hidden: true };
                search_folder(&root, options, include, &task, limit, stop)
            }
            FileType::RegularFile => search_one(&root, &task, limit, stop),
            _ => Err(CallError::NotRegular { path: root }),
        }
    })
    .await
}

fn search_one(path: &Path, task: &Task, limit: usize, stop: &Stop) -> Result<v1::GrepResponse, CallError> {
    let mut answer = Answer::new(limit);
    let found = FileSearch::new(task).search(path, limit, answer::ANSWER_BYTES, &|| stop.check().is_err());
    stop.check()?;
    let _ = answer.add(path, found);
    Ok(answer.finish())
}

fn search_folder(
    root: &Path,
    options: Options,
    include: Option<Override>,
    task: &Task,
    limit: usize,
    stop: &Stop,
) -> Result<v1::GrepResponse, CallError> {
    Pool::run(task, limit, stop, |pool| {
        let mut files = Files { include, pool };
        walk::walk(root, options, stop, &mut files)
    })
}

/// Gives the files that are to be searched to the pool.
struct Files<'a, 'scope, 'env> {
    include: Option<Override>,
    pool: &'a mut Pool<'scope, 'env>,
}

impl Visitor for Files<'_, '_, '_> {
    fn enters(&mut self, _: &[u8]) -> bool {
        true
    }

    fn file(&mut self, path: &Path, _: &[u8], is_link: bool) -> Result<ControlFlow<()>, CallError> {
        if is_link || self.include.as_ref().is_some_and(|include| include.matched(path, false).is_ignore()) {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.pool.add(PathBuf::from(path)))
    }

    fn too_deep(&mut self) {
        self.pool.note_incomplete();
    }
}

/// Which files are searched: globs as git writes them, so that `*.rs` is any such file, and
/// `!*.rs` any other.
fn includes(root: &Path, list: &str) -> Result<Option<Override>, CallError> {
    if list.trim().is_empty() {
        return Ok(None);
    }
    let mut builder = OverrideBuilder::new(root);
    for (start, glob) in split_list(list) {
        check(glob, "include").map_err(|error| match error {
            CallError::InvalidField { field, reason, position } => {
                CallError::InvalidField { field, reason, position: position.map(|at| at + start) }
            }
            other => other,
        })?;
        builder.add(glob).map_err(|error| CallError::field("include", error.to_string()))?;
    }
    let include = builder.build().map_err(|error| CallError::field("include", error.to_string()))?;
    Ok(Some(include))
}
