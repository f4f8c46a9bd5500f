//! Values that must not be seen: they cannot be printed, and memory that held them is wiped.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

/// Key material of the wrong size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is {} bytes long, not {found}", SecretKey::LENGTH)]
pub struct SecretKeyLengthError {
    /// How long it was.
    pub found: usize,
}

/// 256 secret bits.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(Zeroizing<[u8; Self::LENGTH]>);

impl SecretKey {
    /// How many bytes a key has.
    pub const LENGTH: usize = 32;

    /// A key from the operating system's random source.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; Self::LENGTH]);
        getrandom::fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    /// The bytes. Everything that reads them says so with this word.
    pub fn expose(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl From<[u8; Self::LENGTH]> for SecretKey {
    fn from(bytes: [u8; Self::LENGTH]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl TryFrom<&[u8]> for SecretKey {
    type Error = SecretKeyLengthError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        let key = bytes.try_into().map_err(|_| SecretKeyLengthError { found: bytes.len() })?;
        Ok(Self(Zeroizing::new(key)))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// A secret that is text: a token, a private key.
#[derive(Clone)]
pub struct SecretText(SecretString);

impl SecretText {
    /// The text. Everything that reads it says so with this word.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for SecretText {}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

/// Environment variables of a workspace. Names may be shown, values may not.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, SecretString>);

impl Environment {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names and values. Everything that reads the values says so with this word.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose_secret()))
    }

    pub(crate) fn to_json(&self) -> Result<Zeroizing<Vec<u8>>, serde_json::Error> {
        let values: BTreeMap<&str, &str> = self.expose().collect();
        serde_json::to_vec(&values).map(Zeroizing::new)
    }

    pub(crate) fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<BTreeMap<String, String>>(json).map(Self::from_iter)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

impl PartialEq for Environment {
    fn eq(&self, other: &Self) -> bool {
        self.expose().eq(other.expose())
    }
}

impl Eq for Environment {}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names().map(|name| (name, format_args!("…")))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_no_secret() {
        let environment = Environment::from_iter([("TOKEN".to_owned(), "hunter2".to_owned())]);
        assert_eq!(format!("{environment:?}"), r#"{"TOKEN": …}"#);
        assert_eq!(format!("{:?}", SecretKey::from([7; 32])), "SecretKey(…)");
        assert_eq!(format!("{:?}", SecretText::from("hunter2".to_owned())), "SecretText(…)");
    }

    #[test]
    fn a_key_has_one_length() {
        assert_eq!(SecretKey::try_from([7; 32].as_slice()), Ok(SecretKey::from([7; 32])));
        for length in [0, 16, 31, 33, 64] {
            assert_eq!(
                SecretKey::try_from(vec![7; length].as_slice()),
                Err(SecretKeyLengthError { found: length })
            );
        }
    }
}
