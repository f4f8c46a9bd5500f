//! A host with a token, as clients see it: without the token.

use emergent_store::GitCredential;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// A git host that a token is stored for.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitHost {
    /// Its scheme, name and port.
    #[schema(example = "https://git.example")]
    host: String,
    /// The name that goes with the token.
    username: String,
    /// The token of this server's that it was stored with.
    #[schema(required = true)]
    owner_id: Option<Uuid>,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
}

impl From<GitCredential> for GitHost {
    fn from(row: GitCredential) -> Self {
        Self {
            host: row.origin,
            username: row.username,
            owner_id: row.owner_id.map(|id| id.as_uuid()),
            created_at: row.created_at,
        }
    }
}
