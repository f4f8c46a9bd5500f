//! Encryption at rest.
//!
//! ```text
//!   sealed value:  version │ key id │ nonce │ ciphertext and tag
//!                     1    │    8   │   12  │   n + 16             bytes
//!   bound to it:   version, key id, table.column, row id
//! ```
//!
//! The place a value belongs to is authenticated with it: whoever can write to the database
//! file cannot move a sealed value to another row or column, nor change a bit of it. The key
//! id makes a wrong key a clear message instead of an apparent forgery, and leaves room for
//! a second key.
//!
//! Nonces are random. With 96 bits a key is good for 2³² values, far beyond what one
//! installation writes.

use std::fmt;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, Key, KeyInit, Nonce};
use secrecy::zeroize::Zeroizing;
use sha2::{Digest, Sha256};

use crate::SecretKey;

const VERSION: u8 = 1;
const KEY_ID_LENGTH: usize = 8;
const NONCE_LENGTH: usize = 12;
const HEADER_LENGTH: usize = 1 + KEY_ID_LENGTH + NONCE_LENGTH;

/// Why a value could not be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Not something a vault has sealed.
    #[error("{place}: not a sealed value")]
    NotSealed {
        /// Where it was found.
        place: String,
    },
    /// Sealed by a later version of this program.
    #[error("{place}: sealed in format {found}, which this version does not know")]
    UnknownFormat {
        /// Where it was found.
        place: String,
        /// The format it says it has.
        found: u8,
    },
    /// Sealed with another key.
    #[error("{place}: sealed with key {found}, but the configured key is {configured}")]
    WrongKey {
        /// Where it was found.
        place: String,
        /// The key it was sealed with.
        found: KeyId,
        /// The key that was given.
        configured: KeyId,
    },
    /// Changed after it was sealed, or moved here from another place.
    #[error("{place}: the sealed value has been altered")]
    Tampered {
        /// Where it was found.
        place: String,
    },
    /// The cipher refused the plaintext: it is longer than 64 GiB.
    #[error("{place}: too large to seal")]
    TooLarge {
        /// Where it was to go.
        place: String,
    },
    /// The operating system gave no random bytes.
    #[error("{place}: no random bytes for a nonce: {reason}")]
    NoRandomness {
        /// Where it was to go.
        place: String,
        /// What the operating system said.
        reason: String,
    },
}

/// Names a key without revealing anything about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; KEY_ID_LENGTH]);

impl KeyId {
    fn of(key: &SecretKey) -> Self {
        let digest =
            Sha256::new().chain_update(b"emergent vault key id").chain_update(key.expose()).finalize();
        let mut id = [0; KEY_ID_LENGTH];
        id.copy_from_slice(&digest[..KEY_ID_LENGTH]);
        Self(id)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Where a sealed value lives. It can be opened there and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Table and column, as `table.column`.
    pub column: &'static str,
    /// The row's id.
    pub row: &'a str,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.column, self.row)
    }
}

/// Seals and opens values with one key.
#[derive(Clone)]
pub struct Vault {
    cipher: Aes256Gcm,
    key_id: KeyId,
}

impl Vault {
    /// A vault that uses this key for everything.
    pub fn new(key: &SecretKey) -> Self {
        let cipher = Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(key.expose()));
        Self { cipher, key_id: KeyId::of(key) }
    }

    /// Which key this vault uses.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Encrypts `plaintext` so that it can be opened at `place` only.
    pub fn seal(&self, place: Place<'_>, plaintext: &[u8]) -> Result<Vec<u8>, VaultError> {
        let mut nonce = [0; NONCE_LENGTH];
        getrandom::fill(&mut nonce).map_err(|error| VaultError::NoRandomness {
            place: place.to_string(),
            reason: error.to_string(),
        })?;
        let payload = Payload { msg: plaintext, aad: &self.associated_data(place) };
        let ciphertext = self
            .cipher
            .encrypt(Nonce::from_slice(&nonce), payload)
            .map_err(|_| VaultError::TooLarge { place: place.to_string() })?;
        let mut sealed = Vec::with_capacity(HEADER_LENGTH + ciphertext.len());
        sealed.push(VERSION);
        sealed.extend(self.key_id.0);
        sealed.extend(nonce);
        sealed.extend(ciphertext);
        Ok(sealed)
    }

    /// Decrypts what [`seal`](Self::seal) made for the same place. The plaintext is wiped
    /// from memory when it is dropped.
    pub fn open(&self, place: Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let not_sealed = || VaultError::NotSealed { place: place.to_string() };
        let (&version, rest) = sealed.split_first().ok_or_else(not_sealed)?;
        if version != VERSION {
            return Err(VaultError::UnknownFormat { place: place.to_string(), found: version });
        }
        let (&key_id, rest) = rest.split_first_chunk().ok_or_else(not_sealed)?;
        if key_id != self.key_id.0 {
            return Err(VaultError::WrongKey {
                place: place.to_string(),
                found: KeyId(key_id),
                configured: self.key_id,
            });
        }
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LENGTH>().ok_or_else(not_sealed)?;
        let payload = Payload { msg: ciphertext, aad: &self.associated_data(place) };
        self.cipher
            .decrypt(Nonce::from_slice(nonce), payload)
            .map(Zeroizing::new)
            .map_err(|_| VaultError::Tampered { place: place.to_string() })
    }

    fn associated_data(&self, place: Place<'_>) -> Vec<u8> {
        // Neither a column's name nor an id contains a zero byte, so no two places give the
        // same bytes.
        let mut data = vec![VERSION];
        data.extend(self.key_id.0);
        data.extend(place.column.as_bytes());
        data.push(0);
        data.extend(place.row.as_bytes());
        data
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("key_id", &format_args!("{}", self.key_id)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERE: Place<'static> = Place { column: "table.column", row: "row" };

    fn vault(seed: u8) -> Vault {
        Vault::new(&SecretKey::from([seed; 32]))
    }

    #[test]
    fn a_value_opens_only_where_it_belongs() {
        let sealed = vault(1).seal(HERE, b"secret").unwrap();
        for place in [
            Place { row: "other", ..HERE },
            Place { column: "table.other", ..HERE },
            Place { column: "table", row: "column" },
        ] {
            let expect = VaultError::Tampered { place: place.to_string() };
            assert_eq!(vault(1).open(place, &sealed), Err(expect));
        }
    }

    #[test]
    fn another_key_is_named() {
        let sealed = vault(1).seal(HERE, b"secret").unwrap();
        let expect = VaultError::WrongKey {
            place: HERE.to_string(),
            found: vault(1).key_id(),
            configured: vault(2).key_id(),
        };
        assert_eq!(vault(2).open(HERE, &sealed), Err(expect));
    }

    #[test]
    fn the_same_value_never_looks_the_same() {
        assert_ne!(vault(1).seal(HERE, b"secret").unwrap(), vault(1).seal(HERE, b"secret").unwrap());
    }

    #[test]
    fn printing_shows_no_key() {
        assert_eq!(format!("{:?}", vault(1)), format!("Vault {{ key_id: {}, .. }}", vault(1).key_id()));
    }

    proptest! {
        #[test]
        fn what_is_sealed_can_be_opened(plaintext in proptest::collection::vec(any::<u8>(), 0..500)) {
            let sealed = vault(1).seal(HERE, &plaintext).unwrap();
            let opened = vault(1).open(HERE, &sealed).unwrap();
            prop_assert_eq!(opened.as_slice(), plaintext.as_slice());
        }

        #[test]
        fn any_changed_bit_is_noticed(plaintext in proptest::collection::vec(any::<u8>(), 0..50), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let mut sealed = vault(1).seal(HERE, &plaintext).unwrap();
            let at = at.index(sealed.len());
            sealed[at] ^= 1_u8 << bit;
            prop_assert!(vault(1).open(HERE, &sealed).is_err());
        }

        #[test]
        fn any_cut_is_noticed(length in 0..35_usize) {
            let sealed = vault(1).seal(HERE, b"secret").unwrap();
            prop_assert!(vault(1).open(HERE, &sealed[..length.min(sealed.len() - 1)]).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(vault(1).open(HERE, &bytes).is_err());
        }
    }
}
