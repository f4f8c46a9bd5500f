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
//! or pagers, and nothing reaches a network ([`program`]) but what is asked to: that goes to a service of the
//! control plane's on the loopback, which knows whose repositories they are ([`remote`]). The exception are the clean and smudge
//! filters: without them every file under Git LFS would look changed, and a commit would hold the
//! wrong bytes. They run as the account the request names, with nothing that a command of the
//! bash tool would not have, and end with the action.
//!
//! **Paths** in requests start at the folder that the request names, as they would for git run
//! there, or are absolute. Those in answers start at the root of the repository.

mod branch;
mod checkout;
mod clone;
mod commit;
mod conflicts;
mod diff;
mod error;
mod fetch;
mod log;
mod names;
mod porcelain;
mod program;
mod pull;
mod push;
mod remote;
mod space;
mod status;

pub(crate) use error::GitError;

use std::sync::Arc;
use std::time::Duration;

use emergent_protocol::v1;
use tokio::sync::{Mutex, OwnedMutexGuard};
use v1::git_request::Action;
use v1::git_response::Answer;

use crate::agent::Shared;
use crate::error::CallError;

use program::Program;
use remote::Remotes;

/// How long an action may take, with everything it asks git.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The same for what talks to a remote, where the request does not say.
const REMOTE_TIME_LIMIT: Duration = Duration::from_secs(600);

/// How long what a clone has left behind may take to be removed.
const REMOVING: Duration = Duration::from_secs(10);

/// The longest that a request can say.
const MAX_TIME_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Those that write wait for each other: git itself would refuse the second one, because the
/// first has locked the index.
#[derive(Default)]
pub(crate) struct Writers {
    turn: Mutex<()>,
    /// One clone at a time, until nothing is left of one that failed: the next may go to the same folder.
    clones: Arc<Mutex<()>>,
}

impl Writers {
    async fn turn_to_clone(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.clones).lock_owned().await
    }
}

/// Does one action. Dropping it ends git with everything it started.
pub(crate) async fn git(shared: &Arc<Shared>, request: v1::GitRequest) -> Result<v1::GitResponse, CallError> {
    let action = request.action.ok_or_else(|| GitError::invalid("action", "no action is given"))?;
    let files_field = if matches!(action, Action::Commit(_)) { "files" } else { "paths" };
    let program = Program::new(shared, request.path, request.user, files_field);
    let is_remote = matches!(action, Action::Clone(_) | Action::Fetch(_) | Action::Pull(_) | Action::Push(_));
    let limit = match request.time_limit_seconds {
        _ if !is_remote => TIME_LIMIT,
        0 => REMOTE_TIME_LIMIT,
        seconds => Duration::from_secs(seconds.into()).min(MAX_TIME_LIMIT),
    };
    let is_clone = matches!(action, Action::Clone(_));
    let remotes = Remotes::new(request.broker)?;
    let acting = async {
        // What talks to a remote may take long, and takes its turn when it comes to change files.
        let reads = is_remote || matches!(action, Action::Status(_) | Action::Diff(_) | Action::Log(_));
        let _turn = if reads { None } else { Some(shared.git.turn.lock().await) };
        Ok(match action {
            Action::Status(_) => Answer::Status(status::status(&program).await?),
            Action::Diff(request) => Answer::Diff(diff::diff(&program, request).await?),
            Action::Log(request) => Answer::Log(log::log(&program, request).await?),
            Action::Commit(request) => Answer::Commit(commit::commit(&program, request).await?),
            Action::Branch(request) => Answer::Branch(branch::branch(&program, request).await?),
            Action::Checkout(request) => Answer::Checkout(checkout::checkout(&program, request).await?),
            Action::Clone(request) => Answer::Clone(clone::clone(&program, &remotes, request, limit).await?),
            Action::Fetch(request) => Answer::Fetch(fetch::fetch(&program, &remotes, request).await?),
            Action::Pull(request) => Answer::Pull(pull::pull(&program, &remotes, request).await?),
            Action::Push(request) => Answer::Push(push::push(&program, &remotes, request).await?),
        })
    };
    // A clone ends by itself in time, and then removes what is there of it.
    let patience = if is_clone { limit + REMOVING } else { limit };
    let answer: Result<Answer, CallError> = match tokio::time::timeout(patience, acting).await {
        Ok(answer) => answer,
        Err(_) => Err(GitError::too_slow(limit).into()),
    };
    Ok(v1::GitResponse { answer: Some(answer?) })
}
