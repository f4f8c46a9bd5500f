//! Tokens: who may do what.

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::{Client, ClientError};

const TOKENS: &str = "/api/v1/tokens";

/// A token to make.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CreateToken {
    /// For people.
    pub name: String,
    /// `admin`, `user`, `read_only`, `session` or `e2b`.
    pub kind: String,
    /// How long it is valid; for ever where not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
    /// The workspace of a `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The tools of a `session`; all where not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The hosted MCP servers that it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<String>>,
}

/// A token, without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Names it. Not secret.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it allows.
    pub kind: String,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// From when on it is refused.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// Since when it is refused.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub revoked_at: Option<OffsetDateTime>,
    /// The token it was made with.
    #[serde(default)]
    pub owner_id: Option<String>,
    /// The one workspace of a `session`.
    #[serde(default)]
    pub workspace_id: Option<WorkspaceId>,
    /// The tools of a `session`.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// The hosted MCP servers that it was granted.
    #[serde(default)]
    pub mcp_servers: Option<Vec<String>>,
}

/// A token that was just made: the only time it is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct NewToken {
    /// What is to be sent.
    pub token: String,
    /// What is known of it.
    #[serde(flatten)]
    pub about: Token,
}

/// A page of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenList {
    /// Newest first.
    pub items: Vec<Token>,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
}

impl Client {
    /// Makes a token.
    pub async fn create_token(&self, request: &CreateToken) -> Result<NewToken, ClientError> {
        self.post(TOKENS, request).await
    }

    /// A page of tokens, newest first.
    pub async fn tokens(&self, cursor: Option<&str>) -> Result<TokenList, ClientError> {
        let query: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
        self.get(TOKENS, &query).await
    }

    /// Revokes a token, with those that were made with it.
    pub async fn revoke_token(&self, id: &str) -> Result<Token, ClientError> {
        self.delete(&format!("{TOKENS}/{id}"), &NO_QUERY).await
    }
}
