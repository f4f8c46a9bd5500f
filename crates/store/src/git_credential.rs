//! Tokens for git hosts.

use time::OffsetDateTime;

use crate::{SecretText, TokenId};

/// What a git host that is not GitHub wants to be shown. Sealed in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCredential {
    /// The host, as `scheme://host:port`.
    pub origin: String,
    /// The name that goes with the token.
    pub username: String,
    /// The token.
    pub token: SecretText,
    /// The token of ours it was set with.
    pub owner_id: Option<TokenId>,
    /// When it was set.
    pub created_at: OffsetDateTime,
}
