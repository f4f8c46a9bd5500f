//! Keys that make a create happen once, however often it is asked for.

use emergent_types::WorkspaceId;

use crate::TokenId;

/// What a client calls one create. Kept in the same transaction as the row it makes, and longer
/// than what the row is about: a replay after its end must not make a second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Whose key it is. Two tokens may use the same one.
    pub owner: TokenId,
    /// The key, as the client gave it.
    pub key: String,
    /// Tells the same request from another one under the same key.
    pub fingerprint: [u8; 32],
}

/// What is known of a key under which a workspace was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownWorkspace {
    /// Which. It may be gone by now.
    pub id: WorkspaceId,
    /// Whether it was the same request.
    pub same_request: bool,
}
