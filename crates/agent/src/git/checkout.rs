//! Switching to another branch or commit.

use std::collections::HashSet;

use emergent_protocol::v1;

use crate::error::CallError;

use super::error::GitError;
use super::porcelain::{Entry, records, text};
use super::program::{Call, Program};
use super::status::{self, Untracked};
use super::{branch, names, space};

/// The checkout action.
pub(super) async fn checkout(
    program: &Program<'_>,
    request: v1::GitCheckoutRequest,
) -> Result<v1::GitCheckoutResponse, CallError> {
    let name = request.r#ref;
    if request.create {
        create(program, &name).await?;
    } else {
        names::check_revision("ref", &name)?;
        let target = find(program, &name).await?;
        switch(program, target).await?;
    }
    let branch = program.current_branch().await?.unwrap_or_default();
    let commit = program.commit_id("HEAD").await?.unwrap_or_default();
    Ok(v1::GitCheckoutResponse { branch, commit })
}

async fn create(program: &Program<'_>, name: &str) -> Result<(), CallError> {
    names::check_branch("ref", name)?;
    if branch::exists(program, name).await? {
        return Err(GitError::BranchExists { name: name.to_owned() }.into());
    }
    program.ask(Call::write(&["checkout", "--quiet", "--no-track", "-b", name])).await?;
    Ok(())
}

/// What there is to switch to.
enum Target {
    Branch(String),
    /// A branch to make, and the remote one it is to follow.
    Tracked {
        branch: String,
        remote: String,
    },
    /// The id of a commit.
    Commit(String),
}

/// A branch comes first, then a remote's, then whatever else names a commit.
async fn find(program: &Program<'_>, name: &str) -> Result<Target, CallError> {
    if names::check_branch("ref", name).is_ok() {
        if branch::exists(program, name).await? {
            return Ok(Target::Branch(name.to_owned()));
        }
        if let Some(remote) = remote_branch(program, name).await? {
            let local = remote.splitn(4, '/').nth(3).unwrap_or(name).to_owned();
            if branch::exists(program, &local).await? {
                return Ok(Target::Branch(local));
            }
            return Ok(Target::Tracked { branch: local, remote });
        }
    }
    let id = program.commit_id(name).await?;
    id.map(Target::Commit).ok_or_else(|| GitError::RefNotFound { name: name.to_owned() }.into())
}

/// The remote branch of this name: of any remote, or with the remote before it.
async fn remote_branch(program: &Program<'_>, name: &str) -> Result<Option<String>, CallError> {
    let patterns = [format!("refs/remotes/*/{name}"), format!("refs/remotes/{name}")];
    let listed =
        program.ask(Call::read(&["for-each-ref", "--format=%(refname)"]).and(patterns.clone())).await?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    // A pattern also matches what is below it, and a remote's own HEAD is no branch.
    let is_it = |found: &&str| {
        let named = found.strip_prefix("refs/remotes/").and_then(|rest| rest.split_once('/'));
        named.is_some_and(|(_, branch)| branch != "HEAD" && (branch == name || *found == patterns[1]))
    };
    let found: Vec<&str> = listed.lines().filter(is_it).collect();
    let origin = format!("refs/remotes/origin/{name}");
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).to_owned())),
        several if several.contains(&origin.as_str()) => Ok(Some(origin)),
        several => {
            let message =
                format!("{name} is a branch of {} remotes; name one with its remote", several.len());
            Err(GitError::failed_on(message, several.iter().map(|found| (*found).to_owned()).collect())
                .into())
        }
    }
}

async fn switch(program: &Program<'_>, target: Target) -> Result<(), CallError> {
    let words = ["checkout", "--quiet", "--no-guess"];
    let (call, revision) = match target {
        // The two dashes say that it is no file.
        Target::Branch(name) => {
            (Call::write(&words).and([name.as_str(), "--"]), format!("refs/heads/{name}"))
        }
        Target::Tracked { branch, remote } => {
            (Call::write(&words).and(["--track", "-b", branch.as_str(), remote.as_str(), "--"]), remote)
        }
        Target::Commit(id) => (Call::write(&words).and(["--detach", id.as_str(), "--"]), id),
    };
    let collected = program.run(call).await?;
    let stderr = String::from_utf8_lossy(&collected.stderr);
    if collected.status.code == 0 {
        // It switches, and only says so, when files of the branch could not be written.
        let is_whole = space::unwritten(&stderr).is_empty();
        return if is_whole { Ok(()) } else { Err(program.failure(&collected)) };
    }
    if stderr.contains("would be overwritten by checkout") || stderr.contains("would lose untracked files") {
        return Err(GitError::would_overwrite(in_the_way(program, &revision).await?).into());
    }
    Err(program.failure(&collected))
}

/// The files with local changes that the target has otherwise.
pub(super) async fn in_the_way(program: &Program<'_>, revision: &str) -> Result<Vec<String>, CallError> {
    let (status, _) = status::ask(program, Untracked::Each).await?;
    let words = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--no-relative",
        "--ignore-submodules=dirty",
        "--name-only",
        "-z",
    ];
    // Before the first commit the index is all there is to compare with.
    let from = status.commit.clone().unwrap_or_else(|| "--cached".to_owned());
    let differing = program.ask(Call::read(&words).and([from.as_str(), revision, "--"])).await?;
    let differing: HashSet<&[u8]> = records(&differing.stdout).collect();
    let local = status.entries.into_iter().map(|entry| match entry {
        Entry::Changed { path, .. } | Entry::Conflict { path } | Entry::Untracked { path } => path,
    });
    Ok(local.filter(|path| differing.contains(path.as_slice())).map(|path| text(&path)).collect())
}
