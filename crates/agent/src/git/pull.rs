//! Pulling: fetching, then moving the branch that is checked out. What would lose local work is not done:
//! changed files stay as they are, and a merge with conflicts is taken back.

use emergent_protocol::v1;

use crate::error::CallError;

use super::checkout::in_the_way;
use super::commit::missing_identity;
use super::error::GitError;
use super::fetch::{self, Tracked};
use super::names;
use super::porcelain::{Entry, text};
use super::program::{Call, Program};
use super::remote::Remotes;
use super::status::{self, Untracked};

/// The pull action.
pub(super) async fn pull(
    program: &Program<'_>,
    remotes: &Remotes,
    request: v1::GitPullRequest,
) -> Result<v1::GitPullResponse, CallError> {
    let current = program.current_branch().await?;
    let current = current.ok_or_else(|| GitError::failed("no branch is checked out; check one out first"))?;
    let remote = remotes.of_branch(program, Some(&current)).await?;
    let target = if request.branch.is_empty() {
        fetch::followed(program, &remote, Some(&current)).await?
    } else {
        names::check_branch("branch", &request.branch)?;
        Some(Tracked { remote: remote.clone(), branch: request.branch.clone() })
    };
    let target = target.ok_or_else(|| GitError::failed("the branch follows none of the remote's"))?;
    let refspec = format!("+refs/heads/{}:{}", target.branch, target.reference());
    fetch::bring(program, remotes, &remote, Some(refspec), None).await?;
    let _turn = program.shared().git.turn.lock().await;
    let to = program.commit_id(&target.reference()).await?;
    let to = to.ok_or_else(|| GitError::RefNotFound { name: target.branch.clone() })?;
    let from = program.commit_id("HEAD").await?.unwrap_or_default();
    if from == to || (!from.is_empty() && fetch::is_ancestor(program, &to, &from).await?) {
        return Ok(v1::GitPullResponse { from: from.clone(), to: from, fast_forward: true });
    }
    let fast_forward = fetch::is_fast_forward(program, &from, &to).await?;
    merge(program, &request, &to, fast_forward).await?;
    let to = program.commit_id("HEAD").await?.unwrap_or_default();
    Ok(v1::GitPullResponse { from, to, fast_forward })
}

async fn merge(
    program: &Program<'_>,
    request: &v1::GitPullRequest,
    to: &str,
    fast_forward: bool,
) -> Result<(), CallError> {
    let call = if fast_forward {
        Call::write(&["merge", "--quiet", "--ff-only", "--no-verify", to])
    } else {
        let identity = missing_identity(program, &request.author_name, &request.author_email).await?;
        let words = ["merge", "--quiet", "--no-edit", "--no-verify", "--no-gpg-sign", to];
        Call::write(&[]).and(identity.into_iter().flat_map(|setting| ["-c".to_owned(), setting])).and(words)
    };
    let merged = program.run(call).await?;
    if merged.status.code == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&merged.stderr);
    if said.contains("would be overwritten by merge") || said.contains("would lose untracked files") {
        return Err(GitError::would_overwrite(in_the_way(program, to).await?).into());
    }
    if said.contains("refusing to merge unrelated histories") {
        let message = "the histories have nothing in common here; fetch with depth 0 and pull again";
        return Err(GitError::failed(message).into());
    }
    let (now, _) = status::ask(program, Untracked::No).await?;
    let conflicts: Vec<String> = now
        .entries
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Conflict { path } => Some(text(&path)),
            _ => None,
        })
        .collect();
    if conflicts.is_empty() {
        return Err(program.failure(&merged));
    }
    program.ask(Call::write(&["merge", "--abort"])).await?;
    let message =
        "both sides have changed the same lines; nothing was changed here. Fetch, and merge by hand";
    Err(GitError::failed_on(message, conflicts).into())
}
