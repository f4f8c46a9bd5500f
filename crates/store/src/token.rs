//! API tokens, as they are kept: a hash, a name, a kind.

use std::fmt;
use std::str::FromStr;

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// Names one API token. Not the token itself, and not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(Uuid);

impl TokenId {
    /// A new id. Version 7, so that ids sort by their time of creation.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id as a UUID.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for TokenId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TokenId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// A kind of token that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown token kind {given:?}")]
pub struct UnknownTokenKind {
    given: String,
}

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Everything.
    Admin,
    /// Making workspaces and sessions, seeing and using only what it owns.
    User,
    /// Reading.
    ReadOnly,
    /// One agent session: its own workspace, its type's tools and MCP servers.
    Session,
    /// A user's token in the form that the E2B SDKs send.
    E2b,
}

impl TokenKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Admin, Self::User, Self::ReadOnly, Self::Session, Self::E2b];

    /// The kind's name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
            Self::ReadOnly => "read_only",
            Self::Session => "session",
            Self::E2b => "e2b",
        }
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TokenKind {
    type Err = UnknownTokenKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownTokenKind { given: text.chars().take(64).collect() })
    }
}

/// SHA-256 of a token. Tokens are random and long, so a fast hash is enough to make a stolen
/// database useless, and equality of hashes can be looked up in an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for TokenHash {
    fn from(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// An API token, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// Names it; workspaces refer to their owner by this.
    pub id: TokenId,
    /// For people.
    pub name: String,
    /// What it allows.
    pub kind: TokenKind,
    /// What it is recognised by.
    pub hash: TokenHash,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// From when on it is refused; `None` is never. The store does not judge: whoever asks
    /// compares.
    pub expires_at: Option<OffsetDateTime>,
    /// The token it was made with; `None` where the installation itself made it.
    pub owner_id: Option<TokenId>,
    /// Since when it is refused. Its row stays, because workspaces refer to it. As with
    /// `expires_at`, whoever asks compares.
    pub revoked_at: Option<OffsetDateTime>,
    /// What a token of kind `session` is for. One without it is for nothing.
    pub session: Option<SessionScope>,
    /// The hosted MCP servers that it may use beside what its kind allows, by name; `None` is none.
    pub mcp_servers: Option<Vec<String>>,
}

/// What a session's token may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionScope {
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its tools; `None` is all of them.
    pub tools: Option<Vec<String>>,
}

/// A token that is not accepted any more, and what went with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The token as it is now.
    pub token: ApiToken,
    /// Every token that is refused because of it: its own id and those of the tokens that
    /// were made with it, directly or not, whether or not they were refused before.
    pub ids: Vec<TokenId>,
}
