//! Conflicts of a merge, and which of them a commit resolves.
//!
//! As for `git add`, a file in conflict is resolved by naming it, unless git's marks are still in
//! it. git itself looks for them, so it reads as the account that commits.

use std::collections::HashSet;

use crate::error::CallError;

use super::error::{GitError, counted};
use super::names::FROM_ROOT;
use super::porcelain::{self, Entry, records, text};
use super::program::{Call, Program};

/// Where a side of a conflict begins and ends. The line between them may as well underline a title.
const MARKS: &str = "^(<{7}|>{7})( |\r?$)";

/// The most bytes of paths that are given to git as arguments.
const MAX_ARGUMENTS: usize = 256 << 10;

/// Refuses a commit that leaves conflicts: those that it does not name, and those that still have
/// marks. Without any name it is a commit of everything.
pub(super) async fn refuse_unresolved(
    program: &Program<'_>,
    before: &porcelain::Status,
    specs: &[String],
) -> Result<(), CallError> {
    let conflicts = before.entries.iter().filter_map(|entry| match entry {
        Entry::Conflict { path } => Some(path.as_slice()),
        _ => None,
    });
    let conflicts: Vec<&[u8]> = conflicts.collect();
    if conflicts.is_empty() {
        return Ok(());
    }
    let marked = with_marks(program, &conflicts).await?;
    refuse(&conflicts, |path| marked.contains(path), "have conflicts that are not resolved")?;
    if !specs.is_empty() {
        let named = named(program, specs).await?;
        let reason = "have conflicts and are not among the files; name them too, or say all: true";
        refuse(&conflicts, |path| !named.contains(path), reason)?;
    }
    Ok(())
}

fn refuse(conflicts: &[&[u8]], is_left: impl Fn(&[u8]) -> bool, reason: &str) -> Result<(), GitError> {
    let left: Vec<String> = conflicts.iter().filter(|path| is_left(path)).map(|path| text(path)).collect();
    match left.len() {
        0 => Ok(()),
        total => Err(GitError::failed_on(format!("{} {reason}", counted(total)), left)),
    }
}

/// Those with a conflict's marks in them, among others.
async fn with_marks(program: &Program<'_>, conflicts: &[&[u8]]) -> Result<HashSet<Vec<u8>>, CallError> {
    let words = [
        "grep",
        "--text",
        "--no-color",
        "--no-textconv",
        "--no-recurse-submodules",
        "--extended-regexp",
        "--files-with-matches",
        "--full-name",
        "--null",
        "-e",
        MARKS,
        "--",
    ];
    let short = conflicts.iter().map(|path| path.len()).sum::<usize>() <= MAX_ARGUMENTS;
    let each = conflicts.iter().map(|path| Some(format!("{FROM_ROOT}{}", std::str::from_utf8(path).ok()?)));
    // Names that cannot be arguments are found by looking everywhere.
    let paths =
        each.collect::<Option<Vec<_>>>().filter(|_| short).unwrap_or_else(|| vec![":(top)".to_owned()]);
    let collected = program.run(Call::read(&words).and(paths)).await?;
    match collected.status.code {
        0 => {}
        // None has any.
        1 if collected.stderr.is_empty() => {}
        _ if collected.cut => {}
        _ => return Err(program.failure(&collected)),
    }
    Ok(records(&collected.stdout).map(<[u8]>::to_vec).collect())
}

/// The conflicts that these paths name.
async fn named(program: &Program<'_>, specs: &[String]) -> Result<HashSet<Vec<u8>>, CallError> {
    let words = ["ls-files", "--unmerged", "--full-name", "-z", "--"];
    let listed = program.ask(Call::read(&words).and(specs.iter().cloned())).await?;
    // Mode, id and stage stand before a tab.
    let path =
        |record: &[u8]| memchr::memchr(b'\t', record).and_then(|at| Some(record.get(at + 1..)?.to_vec()));
    Ok(records(&listed.stdout).filter_map(path).collect())
}
