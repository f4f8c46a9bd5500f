//! Who is asking.

use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use emergent_store::{TokenId, TokenKind};
use emergent_types::WorkspaceId;
use time::OffsetDateTime;

use super::directory::KnownToken;
use crate::errors::ApiError;

/// Who is asking: a token that was valid when the request came.
#[derive(Clone)]
pub(crate) struct Caller {
    known: Arc<KnownToken>,
}

impl Caller {
    pub(super) fn new(known: Arc<KnownToken>) -> Self {
        Self { known }
    }

    /// Names the token. Not secret.
    pub(crate) fn id(&self) -> TokenId {
        self.known.token().id
    }

    pub(crate) fn kind(&self) -> TokenKind {
        self.known.token().kind
    }

    /// Whether it sees what belongs to others.
    pub(crate) fn sees_all(&self) -> bool {
        matches!(self.kind(), TokenKind::Admin | TokenKind::ReadOnly)
    }

    /// Whose things alone it sees; `None` is everybody's.
    pub(crate) fn owner_filter(&self) -> Option<TokenId> {
        (!self.sees_all()).then(|| self.id())
    }

    /// Whether it may use a workspace that belongs to `owner`.
    pub(crate) fn may_use(&self, id: WorkspaceId, owner: Option<TokenId>) -> bool {
        match self.kind() {
            TokenKind::Admin | TokenKind::ReadOnly => true,
            TokenKind::User | TokenKind::E2b => owner == Some(self.id()),
            TokenKind::Session => self.session_workspace() == Some(id),
        }
    }

    fn session_workspace(&self) -> Option<WorkspaceId> {
        self.known.token().session.as_ref().map(|session| session.workspace_id)
    }

    /// Whether its list of tools has this one. Only a session has a list.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        match (self.kind(), &self.known.token().session) {
            (TokenKind::Session, Some(session)) => {
                session.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name))
            }
            (TokenKind::Session, None) => false,
            _ => true,
        }
    }

    /// Whether it may use a hosted MCP server; where its kind only reads, look at it.
    pub(crate) fn may_use_server(&self, name: &str) -> bool {
        let granted = self.known.token().mcp_servers.as_ref();
        self.sees_all() || granted.is_some_and(|names| names.iter().any(|granted| granted == name))
    }

    /// From when on it is refused.
    pub(crate) fn expires_at(&self) -> Option<OffsetDateTime> {
        self.known.token().expires_at
    }

    /// Whether the token was revoked, or its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.known.is_over()
    }

    /// Returns when the token is revoked or its time is over. Whatever outlives the answer's
    /// head without being its body (a WebSocket) must end then.
    pub(crate) async fn ended(&self) {
        self.known.ended().await;
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({} {})", self.kind(), self.id())
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Only a public route can be without one.
        parts.extensions.get().cloned().ok_or_else(|| ApiError::internal("a public endpoint asks who calls"))
    }
}
