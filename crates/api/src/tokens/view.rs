//! A token, as clients see it: everything but the token.

use emergent_store::{ApiToken, TokenId};
use emergent_types::WorkspaceId;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// A token, without what makes it one.
#[derive(Serialize, ToSchema)]
pub(crate) struct Token {
    /// Names it. Not secret.
    #[schema(value_type = String)]
    id: TokenId,
    /// For people.
    name: String,
    /// `admin`, `user`, `read_only`, `session` or `e2b`.
    #[schema(example = "user")]
    kind: &'static str,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// From when on it is refused; null is never.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    expires_at: Option<OffsetDateTime>,
    /// Since when it is refused.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    revoked_at: Option<OffsetDateTime>,
    /// The token it was made with and ends with; null where it stands for itself.
    #[schema(required = true, value_type = Option<String>)]
    owner_id: Option<TokenId>,
    /// The one workspace of a `session`.
    #[schema(required = true)]
    workspace_id: Option<WorkspaceId>,
    /// The tools of a `session`; null is all of them.
    #[schema(required = true)]
    tools: Option<Vec<String>>,
    /// The hosted MCP servers it was granted; null is none beside what its kind allows.
    #[schema(required = true)]
    mcp_servers: Option<Vec<String>>,
}

impl From<ApiToken> for Token {
    fn from(token: ApiToken) -> Self {
        let (workspace_id, tools) = match token.session {
            Some(session) => (Some(session.workspace_id), session.tools),
            None => (None, None),
        };
        Self {
            id: token.id,
            name: token.name,
            kind: token.kind.as_str(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            owner_id: token.owner_id,
            workspace_id,
            tools,
            mcp_servers: token.mcp_servers,
        }
    }
}
