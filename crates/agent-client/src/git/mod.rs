//! The git tool: one action on one repository of the sandbox.

mod answer;
mod bounds;

pub use answer::{
    GitAnswer, GitBranches, GitChange, GitChangeKind, GitCheckedOut, GitCommit, GitCommitted, GitDiff,
    GitFileDiff, GitLog, GitStatus,
};

use std::time::Duration;

use emergent_protocol::v1;
use v1::git_request::Action;

use crate::{AgentClient, AgentError};

/// How long an action may take. The agent gives each of them a minute, and needs some seconds
/// more to end what is stuck.
const GIT_LIMIT: Duration = Duration::from_secs(75);

/// What to do in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitAction {
    /// What differs.
    Status,
    /// How it differs.
    Diff(GitDiffRequest),
    /// What was committed.
    Log(GitLogRequest),
    /// Commits.
    Commit(GitCommitRequest),
    /// Lists, creates or deletes branches.
    Branch(GitBranchRequest),
    /// Switches to another branch or commit.
    Checkout(GitCheckoutRequest),
}

/// What to compare.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitDiffRequest {
    /// The index instead of the working tree.
    pub staged: bool,
    /// Only these; empty is everything.
    pub paths: Vec<String>,
    /// A commit, branch or tag to compare with; `None` is the index, or HEAD when `staged`.
    pub base: Option<String>,
}

/// Which commits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitLogRequest {
    /// How many at most; 0 is the default (20).
    pub limit: u32,
    /// Where to start; `None` is HEAD.
    pub reference: Option<String>,
}

/// What to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCommitRequest {
    /// The message.
    pub message: String,
    /// What.
    pub what: GitCommitScope,
}

/// What goes into a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitCommitScope {
    /// These paths and nothing else: changed, new, deleted. What else is staged stays staged.
    Files(Vec<String>),
    /// Everything that differs, new files included, ignored ones not.
    All,
}

/// What to do with branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitBranchRequest {
    /// Only lists them.
    List,
    /// Creates one at HEAD.
    Create(String),
    /// Deletes one that is merged.
    Delete(String),
}

/// Where to switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCheckoutRequest {
    /// A branch, remote branch, tag or commit.
    pub reference: String,
    /// Make a new branch of this name at HEAD.
    pub create: bool,
}

impl GitAction {
    fn to_message(&self) -> Action {
        match self {
            Self::Status => Action::Status(v1::GitStatusRequest {}),
            Self::Diff(diff) => Action::Diff(v1::GitDiffRequest {
                staged: diff.staged,
                paths: diff.paths.clone(),
                base: diff.base.clone().unwrap_or_default(),
            }),
            Self::Log(log) => Action::Log(v1::GitLogRequest {
                limit: log.limit,
                r#ref: log.reference.clone().unwrap_or_default(),
            }),
            Self::Commit(commit) => {
                let (files, all) = match &commit.what {
                    GitCommitScope::Files(files) => (files.clone(), false),
                    GitCommitScope::All => (Vec::new(), true),
                };
                Action::Commit(v1::GitCommitRequest { message: commit.message.clone(), files, all })
            }
            Self::Branch(branch) => {
                let (name, delete) = match branch {
                    GitBranchRequest::List => (String::new(), false),
                    GitBranchRequest::Create(name) => (name.clone(), false),
                    GitBranchRequest::Delete(name) => (name.clone(), true),
                };
                Action::Branch(v1::GitBranchRequest { name, delete })
            }
            Self::Checkout(checkout) => Action::Checkout(v1::GitCheckoutRequest {
                r#ref: checkout.reference.clone(),
                create: checkout.create,
            }),
        }
    }
}

impl AgentClient {
    /// Does something in the repository around `path` (`None`: the workspace folder), as an
    /// account of the sandbox (`None`: root). Cancelling ends git with everything it started.
    pub async fn git(
        &self,
        path: Option<&str>,
        user: Option<&str>,
        action: &GitAction,
    ) -> Result<GitAnswer, AgentError> {
        let request = v1::GitRequest {
            path: path.unwrap_or_default().to_owned(),
            user: user.unwrap_or_default().to_owned(),
            action: Some(action.to_message()),
        };
        let response = self
            .call("git", GIT_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.git(request).await }
            })
            .await?;
        GitAnswer::from_message(action, response)
    }
}
