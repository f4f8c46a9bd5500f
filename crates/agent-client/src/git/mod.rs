//! The git tool: one action on one repository of the sandbox.

mod answer;
mod bounds;
mod remote;

pub use answer::{
    GitAnswer, GitBranches, GitChange, GitChangeKind, GitCheckedOut, GitCommit, GitCommitted, GitDiff,
    GitFileDiff, GitLog, GitStatus,
};
pub use remote::{
    Author, Broker, GitCloneRequest, GitCloned, GitFetchRequest, GitFetched, GitPullRequest, GitPulled,
    GitPushRequest, GitPushed, GitRefUpdate,
};

use std::time::Duration;

use emergent_protocol::v1;
use v1::git_request::Action;

use crate::{AgentClient, AgentError};

/// How long an action may take. The agent gives each of them a minute, and needs some seconds
/// more to end what is stuck.
const GIT_LIMIT: Duration = Duration::from_secs(75);

/// How long an agent needs to end what is stuck.
const ENDING: Duration = Duration::from_secs(15);

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
    /// Brings a repository here.
    Clone(GitCloneRequest),
    /// Brings what a remote has.
    Fetch(GitFetchRequest),
    /// Brings what a remote has, and moves the branch that is checked out.
    Pull(GitPullRequest),
    /// Gives a branch to a remote.
    Push(GitPushRequest),
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
    /// Who commits where nobody in the sandbox says otherwise.
    pub author: Option<Author>,
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
    /// Whether it talks to a remote.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Clone(_) | Self::Fetch(_) | Self::Pull(_) | Self::Push(_))
    }

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
                let (author_name, author_email) = Author::told(commit.author.as_ref());
                let message = commit.message.clone();
                Action::Commit(v1::GitCommitRequest { message, files, all, author_name, author_email })
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
            Self::Clone(clone) => Action::Clone(clone.to_message()),
            Self::Fetch(fetch) => Action::Fetch(fetch.to_message()),
            Self::Pull(pull) => Action::Pull(pull.to_message()),
            Self::Push(push) => Action::Push(push.to_message()),
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
        self.git_with(path, user, action, None).await
    }

    /// The same for what may talk to remotes, by the service that leads there.
    pub async fn git_with(
        &self,
        path: Option<&str>,
        user: Option<&str>,
        action: &GitAction,
        broker: Option<&Broker>,
    ) -> Result<GitAnswer, AgentError> {
        let limit = match broker.filter(|_| action.is_remote()) {
            Some(broker) => broker.time_limit,
            None => GIT_LIMIT,
        };
        let request = v1::GitRequest {
            path: path.unwrap_or_default().to_owned(),
            user: user.unwrap_or_default().to_owned(),
            action: Some(action.to_message()),
            broker: broker.map(Broker::to_message),
            time_limit_seconds: u32::try_from(limit.as_secs()).unwrap_or(u32::MAX),
        };
        // It needs some seconds more to end what is stuck.
        let patience = if action.is_remote() { limit + ENDING } else { limit };
        let response = self
            .call("git", patience, |mut stub| {
                let request = request.clone();
                async move { stub.git(request).await }
            })
            .await?;
        GitAnswer::from_message(action, response)
    }
}
