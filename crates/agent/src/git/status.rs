//! What differs.

use emergent_protocol::v1;

use crate::error::CallError;

use super::porcelain::{self, Budget, Change, Entry, text};
use super::program::{Call, Program};

/// Which files that git does not know are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untracked {
    No,
    /// Whole folders by their name only.
    Folders,
    Each,
}

/// Asks for the status. The second is whether it was cut.
pub(super) async fn ask(
    program: &Program<'_>,
    untracked: Untracked,
) -> Result<(porcelain::Status, bool), CallError> {
    let untracked = match untracked {
        Untracked::No => "--untracked-files=no",
        Untracked::Folders => "--untracked-files=normal",
        Untracked::Each => "--untracked-files=all",
    };
    let words = [
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--ahead-behind",
        "--find-renames",
        "--no-column",
        "--ignore-submodules=dirty",
        "--ignored=no",
        untracked,
    ];
    let collected = program.ask(Call::read(&words)).await?;
    Ok((porcelain::status(&collected.stdout), collected.cut))
}

/// The status action.
pub(super) async fn status(program: &Program<'_>) -> Result<v1::GitStatusResponse, CallError> {
    let (status, cut) = ask(program, Untracked::Folders).await?;
    Ok(answer(status, cut))
}

fn answer(status: porcelain::Status, cut: bool) -> v1::GitStatusResponse {
    let mut answer = v1::GitStatusResponse {
        branch: status.branch.unwrap_or_default(),
        upstream: status.upstream.unwrap_or_default(),
        ahead: status.ahead,
        behind: status.behind,
        commit: status.commit.unwrap_or_default(),
        truncated: cut,
        ..Default::default()
    };
    let mut budget = Budget::new();
    for entry in status.entries {
        if !budget.admits(size(&entry)) {
            answer.truncated = true;
            break;
        }
        match entry {
            Entry::Changed { path, staged, unstaged } => {
                answer.staged.extend(staged.map(|change| message(&path, change)));
                answer.unstaged.extend(unstaged.map(|change| message(&path, change)));
            }
            Entry::Conflict { path } => answer.conflicts.push(text(&path)),
            Entry::Untracked { path } => answer.untracked.push(text(&path)),
        }
    }
    answer
}

fn message(path: &[u8], change: Change) -> v1::GitChange {
    v1::GitChange {
        path: text(path),
        change: change.kind.to_owned(),
        old_path: change.old_path.as_deref().map(text).unwrap_or_default(),
    }
}

/// What an entry may take in the answer: a byte that is no UTF-8 becomes three, and a path may
/// be told twice.
fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Conflict { path } | Entry::Untracked { path } => 3 * path.len(),
        Entry::Changed { path, staged, unstaged } => {
            let old = [staged, unstaged].into_iter().flatten().filter_map(|change| change.old_path.as_ref());
            6 * path.len() + old.map(|path| 3 * path.len()).sum::<usize>()
        }
    }
}
