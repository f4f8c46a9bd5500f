//! What the git tool answers.

use emergent_agent_client as agent;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// What came of an action.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum GitAnswer {
    /// Of `status`.
    Status(GitStatus),
    /// Of `diff`.
    Diff(GitDiff),
    /// Of `log`.
    Log(GitLog),
    /// Of `commit`.
    Commit(GitCommitted),
    /// Of `branch`.
    Branch(GitBranches),
    /// Of `checkout`.
    Checkout(GitCheckedOut),
    /// Of `clone`.
    Clone(GitCloned),
    /// Of `fetch`.
    Fetch(GitFetched),
    /// Of `pull`.
    Pull(GitPulled),
    /// Of `push`.
    Push(GitPushed),
}

/// What differs.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitStatus {
    /// The branch; not there on a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The branch it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    /// Commits that the upstream does not have.
    ahead: u64,
    /// Commits that only the upstream has.
    behind: u64,
    /// The commit that is checked out; not there before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// What a commit of the index would change.
    staged: Vec<GitChange>,
    /// What differs from the index.
    unstaged: Vec<GitChange>,
    /// Files that git does not know; whole folders end in `/`.
    untracked: Vec<String>,
    /// Files with both sides' changes in them.
    conflicts: Vec<String>,
    /// Whether a list was cut.
    truncated: bool,
}

/// One path that differs.
#[derive(Serialize, ToSchema)]
struct GitChange {
    /// From the root of the repository.
    path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `copied` or `type_changed`.
    change: &'static str,
    /// Where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_path: Option<String>,
}

/// How it differs.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitDiff {
    /// A unified diff.
    diff: String,
    /// The files in it.
    files: Vec<GitFileDiff>,
    /// Whether the diff or the list was cut.
    truncated: bool,
}

/// How much one file differs.
#[derive(Serialize, ToSchema)]
struct GitFileDiff {
    /// From the root of the repository.
    path: String,
    /// Lines that are new.
    added: u64,
    /// Lines that are gone.
    deleted: u64,
    /// Whether it is not text; lines are not counted then.
    binary: bool,
}

/// What was committed.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitLog {
    /// Newest first.
    commits: Vec<GitCommit>,
    /// Whether there are more.
    truncated: bool,
}

/// One commit.
#[derive(Serialize, ToSchema)]
struct GitCommit {
    /// Its id.
    commit: String,
    /// The ids it follows.
    parents: Vec<String>,
    /// Who wrote it.
    author: GitAuthor,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    date: OffsetDateTime,
    /// The first line of the message.
    subject: String,
    /// The rest of it.
    body: String,
}

/// Who wrote a commit.
#[derive(Serialize, ToSchema)]
struct GitAuthor {
    /// Their name.
    name: String,
    /// Their address.
    email: String,
}

/// A commit that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitCommitted {
    /// Its id.
    commit: String,
    /// How many files it changes.
    files_changed: u64,
    /// On which branch; not there on a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
}

/// The local branches.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitBranches {
    /// By name.
    branches: Vec<String>,
    /// The one that is checked out; not there on a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    /// Whether there are more.
    truncated: bool,
}

/// What is checked out now.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitCheckedOut {
    /// The branch; not there on a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The commit; null before the first.
    #[schema(required = true)]
    commit: Option<String>,
}

/// A clone that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitCloned {
    /// The commit that is checked out; null in an empty repository.
    #[schema(required = true)]
    commit: Option<String>,
    /// The branch; not there on a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// Where it is.
    path: String,
}

/// What was fetched.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitFetched {
    /// What the remote's branch was known to be: the named one, or the one that is followed.
    #[schema(required = true)]
    from: Option<String>,
    /// What it is.
    #[schema(required = true)]
    to: Option<String>,
    /// Whether nothing was lost on the way from one to the other.
    fast_forward: bool,
    /// Every branch of the remote that changed.
    updated: Vec<GitRefUpdate>,
    /// Whether the list was cut.
    truncated: bool,
}

/// A branch that was moved.
#[derive(Serialize, ToSchema)]
struct GitRefUpdate {
    /// Its whole name.
    #[serde(rename = "ref")]
    reference: String,
    /// What it was; null where it is new.
    #[schema(required = true)]
    from: Option<String>,
    /// What it is; null where it is gone.
    #[schema(required = true)]
    to: Option<String>,
}

/// What was pulled.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitPulled {
    /// What was checked out; null before the first commit.
    #[schema(required = true)]
    from: Option<String>,
    /// What is now.
    #[schema(required = true)]
    to: Option<String>,
    /// Whether there was nothing to merge.
    fast_forward: bool,
}

/// What was pushed, or why not.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitPushed {
    /// What the remote took; empty where it had it already.
    pushed: Vec<GitRefUpdate>,
    /// Why the remote did not take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected_reason: Option<String>,
}

impl From<agent::GitRefUpdate> for GitRefUpdate {
    fn from(update: agent::GitRefUpdate) -> Self {
        Self { reference: update.reference, from: update.from, to: update.to }
    }
}

impl From<agent::GitAnswer> for GitAnswer {
    fn from(answer: agent::GitAnswer) -> Self {
        match answer {
            agent::GitAnswer::Status(status) => Self::Status(status.into()),
            agent::GitAnswer::Diff(diff) => Self::Diff(GitDiff {
                diff: diff.diff,
                files: diff.files.into_iter().map(GitFileDiff::from).collect(),
                truncated: diff.truncated,
            }),
            agent::GitAnswer::Log(log) => Self::Log(GitLog {
                commits: log.commits.into_iter().map(GitCommit::from).collect(),
                truncated: log.truncated,
            }),
            agent::GitAnswer::Commit(made) => Self::Commit(GitCommitted {
                commit: made.commit,
                files_changed: made.files_changed,
                branch: made.branch,
            }),
            agent::GitAnswer::Branch(branches) => Self::Branch(GitBranches {
                branches: branches.branches,
                current: branches.current,
                truncated: branches.truncated,
            }),
            agent::GitAnswer::Checkout(now) => {
                Self::Checkout(GitCheckedOut { branch: now.branch, commit: now.commit })
            }
            agent::GitAnswer::Clone(made) => {
                Self::Clone(GitCloned { commit: made.commit, branch: made.branch, path: made.path })
            }
            agent::GitAnswer::Fetch(fetched) => Self::Fetch(GitFetched {
                from: fetched.from,
                to: fetched.to,
                fast_forward: fetched.fast_forward,
                updated: fetched.updated.into_iter().map(GitRefUpdate::from).collect(),
                truncated: fetched.truncated,
            }),
            agent::GitAnswer::Pull(pulled) => {
                let (from, to, fast_forward) = (pulled.from, pulled.to, pulled.fast_forward);
                Self::Pull(GitPulled { from, to, fast_forward })
            }
            agent::GitAnswer::Push(pushed) => Self::Push(GitPushed {
                pushed: pushed.pushed.into_iter().map(GitRefUpdate::from).collect(),
                rejected_reason: pushed.rejected_reason,
            }),
        }
    }
}

impl From<agent::GitStatus> for GitStatus {
    fn from(status: agent::GitStatus) -> Self {
        let changes = |list: Vec<agent::GitChange>| list.into_iter().map(GitChange::from).collect();
        Self {
            branch: status.branch,
            upstream: status.upstream,
            ahead: status.ahead,
            behind: status.behind,
            commit: status.commit,
            staged: changes(status.staged),
            unstaged: changes(status.unstaged),
            untracked: status.untracked,
            conflicts: status.conflicts,
            truncated: status.truncated,
        }
    }
}

impl From<agent::GitChange> for GitChange {
    fn from(change: agent::GitChange) -> Self {
        Self { path: change.path, change: change.change.as_str(), old_path: change.old_path }
    }
}

impl From<agent::GitFileDiff> for GitFileDiff {
    fn from(file: agent::GitFileDiff) -> Self {
        Self { path: file.path, added: file.added, deleted: file.deleted, binary: file.binary }
    }
}

impl From<agent::GitCommit> for GitCommit {
    fn from(commit: agent::GitCommit) -> Self {
        Self {
            commit: commit.commit,
            parents: commit.parents,
            author: GitAuthor { name: commit.author_name, email: commit.author_email },
            // The sandbox says so; it may say anything.
            date: OffsetDateTime::from_unix_timestamp(commit.author_unix)
                .unwrap_or(OffsetDateTime::UNIX_EPOCH),
            subject: commit.subject,
            body: commit.body,
        }
    }
}
