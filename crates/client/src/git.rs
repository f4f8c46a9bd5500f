//! Repositories in a workspace.

use std::time::Duration;

use emergent_types::WorkspaceId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError};

/// How long an action may take that talks to a remote, and any other: some seconds more than the server gives it.
fn limit(action: &str) -> Duration {
    match action {
        "clone" | "fetch" | "pull" | "push" => Duration::from_secs(11 * 60),
        _ => Duration::from_secs(120),
    }
}

/// Which repository, and who works in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GitPlace<'a> {
    /// A folder in the repository; `None` is the workspace's.
    pub path: Option<&'a str>,
    /// An account of the sandbox; `None` is root.
    pub user: Option<&'a str>,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitStatus {
    /// The branch; `None` on a detached HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The branch it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    pub ahead: u64,
    /// Commits that only the upstream has.
    pub behind: u64,
    /// The commit that is checked out; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What a commit of the index would change.
    pub staged: Vec<GitChange>,
    /// What differs from the index.
    pub unstaged: Vec<GitChange>,
    /// Files that git does not know.
    pub untracked: Vec<String>,
    /// Files with both sides' changes in them.
    pub conflicts: Vec<String>,
    /// Whether a list was cut.
    pub truncated: bool,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitChange {
    /// From the root of the repository.
    pub path: String,
    /// How: `added`, `modified`, `deleted`, `renamed`, `copied`, `type_changed`.
    pub change: String,
    /// Where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
}

/// What to compare.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GitDiffRequest {
    /// What is staged instead of what is not.
    pub staged: bool,
    /// Only these; empty is everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The branch, tag or commit to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// How it differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitDiff {
    /// A unified diff.
    pub diff: String,
    /// The files in it.
    pub files: Vec<GitFileDiff>,
    /// Whether the diff or the list was cut.
    pub truncated: bool,
}

/// How much one file differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitFileDiff {
    /// From the root of the repository.
    pub path: String,
    /// Lines that are new.
    pub added: u64,
    /// Lines that are gone.
    pub deleted: u64,
    /// Whether it is not text.
    pub binary: bool,
}

/// Which commits.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GitLogRequest {
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where to begin; `None` is HEAD.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// What was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitLog {
    /// Newest first.
    pub commits: Vec<GitCommit>,
    /// Whether there are more.
    pub truncated: bool,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCommit {
    /// Its id.
    pub commit: String,
    /// The ids it follows.
    pub parents: Vec<String>,
    /// Who wrote it.
    pub author: GitAuthor,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub date: OffsetDateTime,
    /// The first line of the message.
    pub subject: String,
    /// The rest of it.
    pub body: String,
}

/// Who wrote a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitAuthor {
    /// Their name.
    pub name: String,
    /// Their address.
    pub email: String,
}

/// What to commit: these files, or everything.
#[derive(Debug, Clone, Serialize)]
pub struct GitCommitRequest {
    /// The message.
    pub message: String,
    /// These files and nothing else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Everything that differs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCommitted {
    /// Its id.
    pub commit: String,
    /// How many files it changes.
    pub files_changed: u64,
    /// On which branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// The local branches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitBranches {
    /// By name.
    pub branches: Vec<String>,
    /// The one that is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Whether there are more.
    pub truncated: bool,
}

/// What is checked out now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCheckedOut {
    /// The branch; `None` on a detached HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit; `None` before the first.
    pub commit: Option<String>,
}

/// What to clone.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GitCloneRequest {
    /// Which repository.
    pub repository_url: String,
    /// Its branch, tag or commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How many commits of its history; 0 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

/// A clone that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCloned {
    /// The commit that is checked out; `None` in an empty repository.
    pub commit: Option<String>,
    /// The branch; `None` on a detached HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where it is.
    pub path: String,
}

/// What was fetched or pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitBrought {
    /// What it was.
    pub from: Option<String>,
    /// What it is.
    pub to: Option<String>,
    /// Whether nothing had to be merged, and nothing was lost.
    pub fast_forward: bool,
}

/// A branch that was moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRefUpdate {
    /// Its whole name.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What it was; `None` where it is new.
    pub from: Option<String>,
    /// What it is.
    pub to: Option<String>,
}

/// What was pushed, or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitPushed {
    /// What the remote took; empty where it had it already.
    pub pushed: Vec<GitRefUpdate>,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_reason: Option<String>,
}

impl Client {
    /// Brings a repository here, to the place's folder.
    pub async fn git_clone(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        request: &GitCloneRequest,
    ) -> Result<GitCloned, ClientError> {
        self.git(id, "clone", place, json!(request)).await
    }

    /// Brings what the remote has: of one branch, or of all.
    pub async fn git_fetch(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        branch: Option<&str>,
        depth: Option<u32>,
    ) -> Result<GitBrought, ClientError> {
        self.git(id, "fetch", place, json!({ "branch": branch, "depth": depth })).await
    }

    /// Brings what the remote has, and moves the branch that is checked out.
    pub async fn git_pull(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        branch: Option<&str>,
    ) -> Result<GitBrought, ClientError> {
        self.git(id, "pull", place, json!({ "branch": branch })).await
    }

    /// Gives a branch to the remote.
    pub async fn git_push(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        branch: Option<&str>,
        force_with_lease: bool,
    ) -> Result<GitPushed, ClientError> {
        let body = json!({ "branch": branch, "force_with_lease": force_with_lease });
        self.git(id, "push", place, body).await
    }

    /// What differs.
    pub async fn git_status(&self, id: WorkspaceId, place: GitPlace<'_>) -> Result<GitStatus, ClientError> {
        self.git(id, "status", place, json!({})).await
    }

    /// How it differs.
    pub async fn git_diff(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        request: &GitDiffRequest,
    ) -> Result<GitDiff, ClientError> {
        self.git(id, "diff", place, json!(request)).await
    }

    /// What was committed.
    pub async fn git_log(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        request: &GitLogRequest,
    ) -> Result<GitLog, ClientError> {
        self.git(id, "log", place, json!(request)).await
    }

    /// Commits.
    pub async fn git_commit(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        request: &GitCommitRequest,
    ) -> Result<GitCommitted, ClientError> {
        self.git(id, "commit", place, json!(request)).await
    }

    /// The local branches.
    pub async fn git_branches(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
    ) -> Result<GitBranches, ClientError> {
        self.git(id, "branch", place, json!({})).await
    }

    /// Makes a branch at HEAD.
    pub async fn git_create_branch(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        name: &str,
    ) -> Result<GitBranches, ClientError> {
        self.git(id, "branch", place, json!({ "name": name })).await
    }

    /// Deletes a branch that is merged.
    pub async fn git_delete_branch(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        name: &str,
    ) -> Result<GitBranches, ClientError> {
        self.git(id, "branch", place, json!({ "name": name, "delete": true })).await
    }

    /// Switches to another branch or commit, or to a new branch.
    pub async fn git_checkout(
        &self,
        id: WorkspaceId,
        place: GitPlace<'_>,
        reference: &str,
        create: bool,
    ) -> Result<GitCheckedOut, ClientError> {
        self.git(id, "checkout", place, json!({ "ref": reference, "create": create })).await
    }

    /// Any action, with its own fields.
    async fn git<T: DeserializeOwned>(
        &self,
        id: WorkspaceId,
        action: &str,
        place: GitPlace<'_>,
        mut body: Value,
    ) -> Result<T, ClientError> {
        body["action"] = Value::from(action);
        for (name, value) in [("path", place.path), ("user", place.user)] {
            if let Some(value) = value {
                body[name] = Value::from(value);
            }
        }
        self.post_long(&format!("{WORKSPACES}/{id}/git"), &body, limit(action)).await
    }
}
