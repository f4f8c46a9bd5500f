//! Listing, creating and deleting branches.

use emergent_protocol::v1;

use crate::error::CallError;

use super::error::GitError;
use super::names;
use super::porcelain::Budget;
use super::program::{Call, Program};

/// The branch action. Answers with the branches there are afterwards.
pub(super) async fn branch(
    program: &Program<'_>,
    request: v1::GitBranchRequest,
) -> Result<v1::GitBranchResponse, CallError> {
    match (request.name.as_str(), request.delete) {
        ("", false) => {}
        ("", true) => return Err(GitError::invalid("name", "name the branch to delete").into()),
        (name, false) => create(program, name).await?,
        (name, true) => delete(program, name).await?,
    }
    list(program).await
}

/// Whether there is a branch of this name.
pub(super) async fn exists(program: &Program<'_>, name: &str) -> Result<bool, CallError> {
    Ok(program.commit_id(&format!("refs/heads/{name}")).await?.is_some())
}

async fn create(program: &Program<'_>, name: &str) -> Result<(), CallError> {
    names::check_branch("name", name)?;
    if exists(program, name).await? {
        return Err(GitError::BranchExists { name: name.to_owned() }.into());
    }
    let head = program.commit_id("HEAD").await?;
    let head = head.ok_or_else(|| GitError::failed("there is no commit yet that a branch could start at"))?;
    program.ask(Call::write(&["branch", "--no-track", "--quiet", "--end-of-options", name, &head])).await?;
    Ok(())
}

async fn delete(program: &Program<'_>, name: &str) -> Result<(), CallError> {
    names::check_branch("name", name)?;
    if !exists(program, name).await? {
        return Err(GitError::RefNotFound { name: name.to_owned() }.into());
    }
    if program.current_branch().await?.as_deref() == Some(name) {
        return Err(GitError::failed(format!("{name} is checked out; check out another branch first")).into());
    }
    let words = ["branch", "--delete", "--quiet", "--end-of-options", name];
    let collected = program.run(Call::write(&words)).await?;
    match collected.status.code {
        0 => Ok(()),
        _ if String::from_utf8_lossy(&collected.stderr).contains("is not fully merged") => {
            let message = format!("{name} has commits that no other branch has; it is not deleted");
            Err(GitError::failed(message).into())
        }
        _ => Err(program.failure(&collected)),
    }
}

async fn list(program: &Program<'_>) -> Result<v1::GitBranchResponse, CallError> {
    let words = ["for-each-ref", "--format=%(refname)", "refs/heads/"];
    let collected = program.ask(Call::read(&words)).await?;
    let listed = String::from_utf8_lossy(&collected.stdout);
    // A name cannot hold a line end. One that was cut has none.
    let whole = listed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let all = whole.filter_map(|name| name.strip_prefix("refs/heads/"));
    let mut budget = Budget::new();
    let mut truncated = collected.cut;
    let mut branches = Vec::new();
    for name in all {
        if !budget.admits(name.len()) {
            truncated = true;
            break;
        }
        branches.push(name.to_owned());
    }
    let current = program.current_branch().await?.unwrap_or_default();
    Ok(v1::GitBranchResponse { branches, current, truncated })
}
