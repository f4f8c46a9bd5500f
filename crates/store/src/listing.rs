//! Lists of workspaces, page by page, newest first.

use std::fmt;
use std::str::FromStr;

use emergent_types::{ContainerType, ProviderKind, WorkspaceId, WorkspaceStatus};

use crate::{TokenId, WorkspaceRow};

/// Which workspaces to list. What is `None` does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkspaceFilter {
    /// In this state.
    pub status: Option<WorkspaceStatus>,
    /// Of this type.
    pub container_type: Option<ContainerType>,
    /// Made by this provider.
    pub provider: Option<ProviderKind>,
    /// Belonging to this token.
    pub owner: Option<TokenId>,
}

/// Text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor: expected the next_cursor of an earlier page")]
pub struct ParseCursorError;

/// Where a page ended. Clients treat it as opaque; it is the last id they were given, so
/// it stays good however many rows come and go in between, and needs no memory here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceCursor(WorkspaceId);

impl WorkspaceCursor {
    /// A cursor behind this workspace.
    pub fn after(id: WorkspaceId) -> Self {
        Self(id)
    }

    pub(crate) fn id(self) -> WorkspaceId {
        self.0
    }
}

impl fmt::Display for WorkspaceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for WorkspaceCursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| ParseCursorError)
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspacePage {
    /// Newest first.
    pub items: Vec<WorkspaceRow>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<WorkspaceCursor>,
}
