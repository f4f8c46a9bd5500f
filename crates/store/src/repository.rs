//! The repositories of a workspace.

use serde::{Deserialize, Serialize};

/// A repository that belongs to a workspace: programs in it may fetch from there and push to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Where it comes from.
    pub url: String,
    /// The branch, tag or commit that was asked for; `None` is the default branch.
    pub branch: Option<String>,
    /// Where it lies, from `/workspace`; empty is that folder itself.
    pub path: String,
    /// How many commits of its history; 0 is all.
    pub depth: u32,
    /// How its checkout goes.
    #[serde(flatten)]
    pub state: RepositoryState,
}

/// How the checkout of a repository goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RepositoryState {
    /// It is still to be made.
    Pending,
    /// It is there.
    Done {
        /// The commit that was checked out; `None` where the repository has none.
        commit: Option<String>,
    },
    /// It is not there.
    Failed {
        /// Why, for people.
        reason: String,
        /// What helps.
        hint: Option<String>,
    },
}

impl Repository {
    /// Whether it is still to be checked out.
    pub fn is_pending(&self) -> bool {
        self.state == RepositoryState::Pending
    }
}
