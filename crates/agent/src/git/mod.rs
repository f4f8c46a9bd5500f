//! The git tool: one action on one repository of the sandbox.
//!
//! ```text
//!  request ──► checked names, paths ──► git … (argv, no shell) ──► NUL-separated records ──► answer
//! ```
//!
//! The sandbox's own git does the work, under the launcher's supervision and as the account the
//! request names, so a repository is whatever that git says it is: worktrees, submodules and
//! `.git` files included. Everything it prints is read in forms that keep any name apart from
//! its neighbours (`-z`), and what decides between errors is asked for, not guessed, wherever
//! git has a way to ask.
//!
//! **A repository's configuration is data of the sandbox's.** Looking at a repository runs none of
//! what it asks for: no hooks, file system monitors, external diffs, text conversions, signing
//! or pagers, and nothing reaches a network ([`program`]). The exception are the clean and smudge
//! filters: without them every file under Git LFS would look changed, and a commit would hold the
//! wrong bytes. They run as the account the request names, with nothing that a command of the
//! bash tool would not have, and end with the action.
//!
//! **Paths** in requests start at the folder that the request names, as they would for git run
//! there, or are absolute. Those in answers start at the root of the repository.

mod branch;
mod checkout;
mod commit;
mod conflicts;
mod diff;
mod error;
mod log;
mod names;
mod porcelain;
mod program;
mod space;
mod status;

pub(crate) use error::GitError;

use std::sync::Arc;
use std::time::Duration;

use emergent_protocol::v1;
use tokio::sync::Mutex;
use v1::git_request::Action;
use v1::git_response::Answer;

use crate::agent::Shared;
use crate::error::CallError;

use program::Program;

/// How long an action may take, with everything it asks git.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Those that write wait for each other: git itself would refuse the second one, because the
/// first has locked the index.
#[derive(Default)]
pub(crate) struct Writers {
    turn: Mutex<()>,
}

/// Does one action. Dropping it ends git with everything it started.
pub(crate) async fn git(shared: &Arc<Shared>, request: v1::GitRequest) -> Result<v1::GitResponse, CallError> {
    let action = request.action.ok_or_else(|| GitError::invalid("action", "no action is given"))?;
    let files_field = if matches!(action, Action::Commit(_)) { "files" } else { "paths" };
    let program = Program::new(shared, request.path, request.user, files_field);
    let acting = async {
        let reads = matches!(action, Action::Status(_) | Action::Diff(_) | Action::Log(_));
        let _turn = if reads { None } else { Some(shared.git.turn.lock().await) };
        Ok(match action {
            Action::Status(_) => Answer::Status(status::status(&program).await?),
            Action::Diff(request) => Answer::Diff(diff::diff(&program, request).await?),
            Action::Log(request) => Answer::Log(log::log(&program, request).await?),
            Action::Commit(request) => Answer::Commit(commit::commit(&program, request).await?),
            Action::Branch(request) => Answer::Branch(branch::branch(&program, request).await?),
            Action::Checkout(request) => Answer::Checkout(checkout::checkout(&program, request).await?),
        })
    };
    let answer: Result<Answer, CallError> = match tokio::time::timeout(TIME_LIMIT, acting).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(GitError::failed(format!("git did not end within {TIME_LIMIT:?} and was ended")).into())
        }
    };
    Ok(v1::GitResponse { answer: Some(answer?) })
}
