//! What talks to remotes, through a service of the control plane's.

use std::time::Duration;

use emergent_protocol::v1;

use crate::AgentError;

use super::answer::optional_commit;
use super::bounds::{self, listed};

/// The longest reason that is taken from an agent.
const MAX_REASON: usize = 4 << 10;

/// How a sandbox reaches the remotes of its repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// The port of the service on the sandbox's loopback.
    pub port: u16,
    /// The address of each repository, and where the service has it.
    pub repositories: Vec<(String, String)>,
    /// How long one action may take.
    pub time_limit: Duration,
}

impl Broker {
    pub(super) fn to_message(&self) -> v1::GitBroker {
        let brokered =
            |(url, path): &(String, String)| v1::GitBrokered { url: url.clone(), path: path.clone() };
        v1::GitBroker {
            port: self.port.into(),
            repositories: self.repositories.iter().map(brokered).collect(),
        }
    }
}

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Their name.
    pub name: String,
    /// Their address.
    pub email: String,
}

impl Author {
    pub(super) fn told(author: Option<&Self>) -> (String, String) {
        author.map(|author| (author.name.clone(), author.email.clone())).unwrap_or_default()
    }
}

/// What to clone. Where to is the folder of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCloneRequest {
    /// One of the broker's repositories.
    pub url: String,
    /// A branch, a tag or a commit; `None` is the default branch.
    pub reference: Option<String>,
    /// How many commits; 0 is all.
    pub depth: u32,
    /// Empties the folder first. Otherwise there must be none, or an empty one.
    pub clean: bool,
    /// Who commits in the clone where nobody in the sandbox says otherwise.
    pub author: Option<Author>,
}

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitFetchRequest {
    /// One branch; `None` is all.
    pub branch: Option<String>,
    /// How many commits of the history; 0 is all, `None` as it is.
    pub depth: Option<u32>,
}

/// What to pull.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitPullRequest {
    /// The remote's branch; `None` is the one that is followed.
    pub branch: Option<String>,
    /// Who merges where nobody in the sandbox says otherwise.
    pub author: Option<Author>,
}

/// What to push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitPushRequest {
    /// The branch; `None` is the one that is checked out.
    pub branch: Option<String>,
    /// Also where the remote's history is lost, as long as it is as it was last seen.
    pub force_with_lease: bool,
}

/// A clone that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCloned {
    /// The commit that is checked out; `None` in an empty repository.
    pub commit: Option<String>,
    /// The branch; `None` on a detached HEAD.
    pub branch: Option<String>,
    /// Where it is.
    pub path: String,
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFetched {
    /// What the remote's branch was known to be.
    pub from: Option<String>,
    /// What it is.
    pub to: Option<String>,
    /// Nothing was lost on the way from one to the other.
    pub fast_forward: bool,
    /// Every branch that changed.
    pub updated: Vec<GitRefUpdate>,
    /// There are more.
    pub truncated: bool,
}

/// A branch that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRefUpdate {
    /// Its whole name.
    pub reference: String,
    /// What it was; `None` where it is new.
    pub from: Option<String>,
    /// What it is; `None` where it is gone.
    pub to: Option<String>,
}

/// What was pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPulled {
    /// What was checked out.
    pub from: Option<String>,
    /// What is now.
    pub to: Option<String>,
    /// There was nothing to merge.
    pub fast_forward: bool,
}

/// What was pushed, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPushed {
    /// What the remote took; empty where it had it already.
    pub pushed: Vec<GitRefUpdate>,
    /// Why it did not.
    pub rejected_reason: Option<String>,
}

impl GitCloneRequest {
    pub(super) fn to_message(&self) -> v1::GitCloneRequest {
        let (author_name, author_email) = Author::told(self.author.as_ref());
        v1::GitCloneRequest {
            url: self.url.clone(),
            r#ref: self.reference.clone().unwrap_or_default(),
            depth: self.depth,
            clean: self.clean,
            author_name,
            author_email,
        }
    }
}

impl GitFetchRequest {
    pub(super) fn to_message(&self) -> v1::GitFetchRequest {
        v1::GitFetchRequest { branch: self.branch.clone().unwrap_or_default(), depth: self.depth }
    }
}

impl GitPullRequest {
    pub(super) fn to_message(&self) -> v1::GitPullRequest {
        let (author_name, author_email) = Author::told(self.author.as_ref());
        v1::GitPullRequest { branch: self.branch.clone().unwrap_or_default(), author_name, author_email }
    }
}

impl GitPushRequest {
    pub(super) fn to_message(&self) -> v1::GitPushRequest {
        let branch = self.branch.clone().unwrap_or_default();
        v1::GitPushRequest { branch, force_with_lease: self.force_with_lease }
    }
}

impl GitCloned {
    pub(super) fn read(cloned: v1::GitCloneResponse) -> Result<Self, AgentError> {
        Ok(Self {
            commit: optional_commit(cloned.commit)?,
            branch: bounds::optional(cloned.branch)?,
            path: bounds::name(cloned.path)?,
        })
    }
}

impl GitFetched {
    pub(super) fn read(fetched: v1::GitFetchResponse) -> Result<Self, AgentError> {
        let mut truncated = fetched.truncated;
        Ok(Self {
            from: optional_commit(fetched.from)?,
            to: optional_commit(fetched.to)?,
            fast_forward: fetched.fast_forward,
            updated: listed(fetched.updated, &mut truncated, GitRefUpdate::read)?,
            truncated,
        })
    }
}

impl GitRefUpdate {
    fn read(update: v1::GitRefUpdate) -> Result<Self, AgentError> {
        Ok(Self {
            reference: bounds::name(update.r#ref)?,
            from: optional_commit(update.from)?,
            to: optional_commit(update.to)?,
        })
    }
}

impl GitPulled {
    pub(super) fn read(pulled: v1::GitPullResponse) -> Result<Self, AgentError> {
        let (from, to) = (optional_commit(pulled.from)?, optional_commit(pulled.to)?);
        Ok(Self { from, to, fast_forward: pulled.fast_forward })
    }
}

impl GitPushed {
    pub(super) fn read(pushed: v1::GitPushResponse) -> Result<Self, AgentError> {
        let reason = bounds::text(pushed.rejected_reason, MAX_REASON)?;
        Ok(Self {
            pushed: listed(pushed.pushed, &mut false, GitRefUpdate::read)?,
            rejected_reason: (!reason.is_empty()).then_some(reason),
        })
    }
}
