//! What the git tool answers. Everything was told by the sandbox and is bounded.

use emergent_protocol::v1;
use v1::git_response::Answer;

use crate::AgentError;

use super::GitAction;
use super::bounds::{self, MAX_DIFF, MAX_PARENTS, listed};
use super::remote::{GitCloned, GitFetched, GitPulled, GitPushed};

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitAnswer {
    /// Of [`GitAction::Status`].
    Status(GitStatus),
    /// Of [`GitAction::Diff`].
    Diff(GitDiff),
    /// Of [`GitAction::Log`].
    Log(GitLog),
    /// Of [`GitAction::Commit`].
    Commit(GitCommitted),
    /// Of [`GitAction::Branch`].
    Branch(GitBranches),
    /// Of [`GitAction::Checkout`].
    Checkout(GitCheckedOut),
    /// Of [`GitAction::Clone`].
    Clone(GitCloned),
    /// Of [`GitAction::Fetch`].
    Fetch(GitFetched),
    /// Of [`GitAction::Pull`].
    Pull(GitPulled),
    /// Of [`GitAction::Push`].
    Push(GitPushed),
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitStatus {
    /// The branch; `None` on a detached HEAD.
    pub branch: Option<String>,
    /// The branch it follows.
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    pub ahead: u64,
    /// Commits that only the upstream has.
    pub behind: u64,
    /// The commit that is checked out; `None` before the first.
    pub commit: Option<String>,
    /// Between HEAD and the index.
    pub staged: Vec<GitChange>,
    /// Between the index and the working tree.
    pub unstaged: Vec<GitChange>,
    /// Files that git does not know; whole folders end in a slash.
    pub untracked: Vec<String>,
    /// Files with both sides' changes in them.
    pub conflicts: Vec<String>,
    /// The lists were cut.
    pub truncated: bool,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitChange {
    /// Relative to the root of the repository.
    pub path: String,
    /// How.
    pub change: GitChangeKind,
    /// Where it was.
    pub old_path: Option<String>,
}

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitChangeKind {
    /// It is new.
    Added,
    /// Its content or mode differs.
    Modified,
    /// It is gone.
    Deleted,
    /// It was somewhere else.
    Renamed,
    /// It looks like another one.
    Copied,
    /// It was a link and is a file, or the other way round.
    TypeChanged,
}

impl GitChangeKind {
    /// As the API shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Copied => "copied",
            Self::TypeChanged => "type_changed",
        }
    }

    fn from_text(text: &str) -> Result<Self, AgentError> {
        let all =
            [Self::Added, Self::Modified, Self::Deleted, Self::Renamed, Self::Copied, Self::TypeChanged];
        let found = all.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| AgentError::malformed("git", "an unknown kind of change"))
    }
}

/// How it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDiff {
    /// A unified diff, up to a cap. Invalid UTF-8 is replaced.
    pub diff: String,
    /// The diff or the list was cut.
    pub truncated: bool,
    /// The files in it.
    pub files: Vec<GitFileDiff>,
}

/// How much one file differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFileDiff {
    /// Relative to the root of the repository.
    pub path: String,
    /// Lines.
    pub added: u64,
    /// Lines.
    pub deleted: u64,
    /// It is not text; lines are not counted.
    pub binary: bool,
}

/// What was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitLog {
    /// Newest first.
    pub commits: Vec<GitCommit>,
    /// There are more.
    pub truncated: bool,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCommit {
    /// Its id.
    pub commit: String,
    /// The ids it follows.
    pub parents: Vec<String>,
    /// Who wrote it.
    pub author_name: String,
    /// And their address.
    pub author_email: String,
    /// When, in Unix seconds.
    pub author_unix: i64,
    /// The first line of the message.
    pub subject: String,
    /// The rest of it.
    pub body: String,
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCommitted {
    /// Its id.
    pub commit: String,
    /// How many files it changes.
    pub files_changed: u64,
    /// On which branch; `None` on a detached HEAD.
    pub branch: Option<String>,
}

/// The local branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitBranches {
    /// By name.
    pub branches: Vec<String>,
    /// The one that is checked out; `None` on a detached HEAD.
    pub current: Option<String>,
    /// There are more.
    pub truncated: bool,
}

/// What is checked out now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCheckedOut {
    /// The branch; `None` on a detached HEAD.
    pub branch: Option<String>,
    /// The commit; `None` on a new branch before the first commit.
    pub commit: Option<String>,
}

impl GitAnswer {
    pub(super) fn from_message(action: &GitAction, response: v1::GitResponse) -> Result<Self, AgentError> {
        let answer = response.answer.ok_or_else(|| AgentError::malformed("git", "no answer"))?;
        Ok(match (action, answer) {
            (GitAction::Status, Answer::Status(status)) => Self::Status(read_status(status)?),
            (GitAction::Diff(_), Answer::Diff(diff)) => Self::Diff(read_diff(diff)?),
            (GitAction::Log(_), Answer::Log(log)) => Self::Log(read_log(log)?),
            (GitAction::Commit(_), Answer::Commit(commit)) => Self::Commit(GitCommitted {
                commit: bounds::commit(commit.commit)?,
                files_changed: commit.files_changed,
                branch: bounds::optional(commit.branch)?,
            }),
            (GitAction::Branch(_), Answer::Branch(branch)) => {
                let mut truncated = branch.truncated;
                Self::Branch(GitBranches {
                    branches: listed(branch.branches, &mut truncated, bounds::name)?,
                    current: bounds::optional(branch.current)?,
                    truncated,
                })
            }
            (GitAction::Checkout(_), Answer::Checkout(checkout)) => Self::Checkout(GitCheckedOut {
                branch: bounds::optional(checkout.branch)?,
                commit: optional_commit(checkout.commit)?,
            }),
            (GitAction::Clone(_), Answer::Clone(cloned)) => Self::Clone(GitCloned::read(cloned)?),
            (GitAction::Fetch(_), Answer::Fetch(fetched)) => Self::Fetch(GitFetched::read(fetched)?),
            (GitAction::Pull(_), Answer::Pull(pulled)) => Self::Pull(GitPulled::read(pulled)?),
            (GitAction::Push(_), Answer::Push(pushed)) => Self::Push(GitPushed::read(pushed)?),
            _ => return Err(AgentError::malformed("git", "the answer to something else")),
        })
    }
}

fn read_status(status: v1::GitStatusResponse) -> Result<GitStatus, AgentError> {
    let mut truncated = status.truncated;
    Ok(GitStatus {
        branch: bounds::optional(status.branch)?,
        upstream: bounds::optional(status.upstream)?,
        ahead: status.ahead,
        behind: status.behind,
        commit: optional_commit(status.commit)?,
        staged: listed(status.staged, &mut truncated, read_change)?,
        unstaged: listed(status.unstaged, &mut truncated, read_change)?,
        untracked: listed(status.untracked, &mut truncated, bounds::name)?,
        conflicts: listed(status.conflicts, &mut truncated, bounds::name)?,
        truncated,
    })
}

fn read_change(change: v1::GitChange) -> Result<GitChange, AgentError> {
    Ok(GitChange {
        path: bounds::name(change.path)?,
        change: GitChangeKind::from_text(&change.change)?,
        old_path: bounds::optional(change.old_path)?,
    })
}

fn read_diff(diff: v1::GitDiffResponse) -> Result<GitDiff, AgentError> {
    let mut truncated = diff.truncated;
    let files = listed(diff.files, &mut truncated, |file| {
        let path = bounds::name(file.path)?;
        Ok(GitFileDiff { path, added: file.added, deleted: file.deleted, binary: file.binary })
    })?;
    Ok(GitDiff { diff: bounds::text(diff.diff, MAX_DIFF)?, truncated, files })
}

fn read_log(log: v1::GitLogResponse) -> Result<GitLog, AgentError> {
    let mut truncated = log.truncated;
    let commits = listed(log.commits, &mut truncated, |commit| {
        Ok(GitCommit {
            commit: bounds::commit(commit.commit)?,
            parents: commit
                .parents
                .into_iter()
                .take(MAX_PARENTS)
                .map(bounds::commit)
                .collect::<Result<_, _>>()?,
            author_name: bounds::name(commit.author_name)?,
            author_email: bounds::name(commit.author_email)?,
            author_unix: commit.author_unix,
            subject: bounds::text(commit.subject, MAX_DIFF)?,
            body: bounds::text(commit.body, MAX_DIFF)?,
        })
    })?;
    Ok(GitLog { commits, truncated })
}

pub(super) fn optional_commit(id: String) -> Result<Option<String>, AgentError> {
    if id.is_empty() { Ok(None) } else { bounds::commit(id).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(answer: Answer) -> v1::GitResponse {
        v1::GitResponse { answer: Some(answer) }
    }

    #[test]
    fn an_answer_belongs_to_its_question() {
        let status = response(Answer::Status(v1::GitStatusResponse::default()));
        assert!(GitAnswer::from_message(&GitAction::Status, status.clone()).is_ok());
        assert!(GitAnswer::from_message(&GitAction::Log(Default::default()), status).is_err());
        assert!(GitAnswer::from_message(&GitAction::Status, v1::GitResponse { answer: None }).is_err());
    }

    #[test]
    fn an_unknown_change_is_refused() {
        let change = v1::GitChange { path: "a".into(), change: "eaten".into(), old_path: String::new() };
        let status = v1::GitStatusResponse { staged: vec![change], ..Default::default() };
        assert!(GitAnswer::from_message(&GitAction::Status, response(Answer::Status(status))).is_err());
    }
}
