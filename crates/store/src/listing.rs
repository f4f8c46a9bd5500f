//! Lists, page by page, newest first.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use emergent_types::{ContainerType, ProviderKind, WorkspaceId, WorkspaceStatus};

use time::OffsetDateTime;

use crate::clock::{from_millis, to_millis};
use crate::{ApiToken, TokenId, WorkspaceRow};

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

/// Which tokens to list. What is `None` does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenFilter {
    /// Made with this token.
    pub owner: Option<TokenId>,
}

/// Text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor: expected the next_cursor of an earlier page")]
pub struct ParseCursorError;

/// Where a page ended. Clients treat it as opaque; it is the last id they were given, so
/// it stays good however many rows come and go in between, and needs no memory here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor<Id>(Id);

/// Where a page of workspaces ended: their ids say nothing about their age, because some sandboxes are
/// made before they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceCursor {
    pub(crate) created_at: OffsetDateTime,
    pub(crate) id: WorkspaceId,
}

impl WorkspaceCursor {
    /// A cursor behind this row.
    pub fn after(row: &WorkspaceRow) -> Self {
        Self { created_at: row.created_at, id: row.id }
    }
}

impl fmt::Display for WorkspaceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", to_millis(self.created_at), self.id)
    }
}

impl FromStr for WorkspaceCursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (millis, id) = text.split_once('.').ok_or(ParseCursorError)?;
        let created_at = millis.parse().map_err(|_| ParseCursorError)?;
        let created_at = from_millis(created_at).map_err(|_| ParseCursorError)?;
        let id = id.parse().map_err(|_| ParseCursorError)?;
        Ok(Self { created_at, id })
    }
}

/// Where a page of tokens ended.
pub type TokenCursor = Cursor<TokenId>;

impl<Id: Copy> Cursor<Id> {
    /// A cursor behind what has this id.
    pub fn after(id: Id) -> Self {
        Self(id)
    }

    pub(crate) fn id(self) -> Id {
        self.0
    }
}

impl<Id: fmt::Display> fmt::Display for Cursor<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<Id: FromStr> FromStr for Cursor<Id> {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| ParseCursorError)
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<Item, Next> {
    /// Newest first.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<Next>,
}

/// One page of workspaces.
pub type WorkspacePage = Page<WorkspaceRow, WorkspaceCursor>;
/// One page of tokens.
pub type TokenPage = Page<ApiToken, TokenCursor>;

impl<Item, Next> Page<Item, Next> {
    /// A page of `limit` items out of what was found, which is one more where there is
    /// another page.
    pub(crate) fn cut(mut found: Vec<Item>, limit: NonZeroU32, cursor: impl FnOnce(&Item) -> Next) -> Self {
        let limit = limit.get() as usize;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(cursor);
        Self { items: found, next }
    }
}
