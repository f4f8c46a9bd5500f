//! Keys that make a create happen once, however often it is asked for.

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
