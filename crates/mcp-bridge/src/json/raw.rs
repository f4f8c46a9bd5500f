use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// Why a text is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is not UTF-8.
    #[error("the message is not UTF-8")]
    NotUtf8,
    /// It is not JSON.
    #[error("the message is not JSON: {0}")]
    NotJson(String),
    /// A member that the bridge must read is there twice, so readers would disagree about it.
    #[error("the member {0:?} occurs twice")]
    Duplicate(String),
    /// It is JSON, but not the message that is expected here.
    #[error("{0}")]
    Shape(&'static str),
}

impl Malformed {
    /// The JSON-RPC code: -32700 for what is no JSON, -32600 for what is no message.
    pub fn code(&self) -> i64 {
        match self {
            Self::NotUtf8 | Self::NotJson(_) => -32700,
            Self::Duplicate(_) | Self::Shape(_) => -32600,
        }
    }
}

/// One JSON text, exactly as it was sent. Clones share the text.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Arc<String>);

impl RawJson {
    /// Takes a text that must be one JSON value.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, Malformed> {
        let text = String::from_utf8(bytes.into()).map_err(|_| Malformed::NotUtf8)?;
        serde_json::from_str::<serde::de::IgnoredAny>(&text)
            .map_err(|e| Malformed::NotJson(e.to_string()))?;
        Ok(Self::known(text))
    }

    /// A text that is JSON because of how it was made, or whose reader checks it next.
    pub(crate) fn known(text: String) -> Self {
        Self(Arc::new(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Whether it is an array, that is, a batch.
    pub fn is_batch(&self) -> bool {
        self.as_str().trim_start().starts_with('[')
    }
}

impl AsRef<[u8]> for RawJson {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for RawJson {
    /// Only the size: messages carry what users consider theirs, and logs are kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}
