//! A bearer token, as its owner has it.

use std::fmt;

use emergent_store::TokenHash;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Makes a leaked token easy to recognise for people and for secret scanners.
const PREFIX: &str = "emergent_";

/// How many random bytes a new token has.
const RANDOM_BYTES: usize = 32;

/// How many random bytes a token for the E2B SDKs has: they insist on 40 digits.
const E2B_RANDOM_BYTES: usize = 20;

/// The operating system gave no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no random bytes for a token: {reason}")]
pub struct NoRandomness {
    reason: String,
}

/// A bearer token, as its owner has it. Cannot be printed by accident.
#[derive(Clone)]
pub struct BearerToken(SecretString);

impl BearerToken {
    /// What the tokens of the E2B SDKs begin with.
    pub(crate) const E2B_PREFIX: &str = "e2b_";

    /// A new token of 256 random bits.
    pub fn generate() -> Result<Self, NoRandomness> {
        Self::random::<RANDOM_BYTES>(PREFIX)
    }

    /// A new token in the form that the E2B SDKs accept.
    pub(crate) fn generate_e2b() -> Result<Self, NoRandomness> {
        Self::random::<E2B_RANDOM_BYTES>(Self::E2B_PREFIX)
    }

    fn random<const N: usize>(prefix: &str) -> Result<Self, NoRandomness> {
        let mut bytes = [0; N];
        getrandom::fill(&mut bytes).map_err(|error| NoRandomness { reason: error.to_string() })?;
        let mut text = prefix.to_owned();
        for byte in bytes {
            text.push_str(&format!("{byte:02x}"));
        }
        Ok(Self(text.into()))
    }

    /// What the store recognises it by.
    pub fn hash(&self) -> TokenHash {
        TokenHash::from(<[u8; 32]>::from(Sha256::digest(self.0.expose_secret())))
    }

    /// The token itself. Everything that reads it says so with this word.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for BearerToken {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_do_not_print() {
        let (one, other) = (BearerToken::generate().unwrap(), BearerToken::generate().unwrap());
        assert_ne!(one.expose(), other.expose());
        assert_ne!(one.hash(), other.hash());
        assert_eq!(one.expose().len(), PREFIX.len() + 2 * RANDOM_BYTES);
        assert_eq!(format!("{one:?}"), "BearerToken(…)");
        assert_eq!(BearerToken::from(one.expose().to_owned()).hash(), one.hash());
    }
}
