//! Bringing values into the form in which they are kept.

use std::error::Error;
use std::num::NonZeroU32;

use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Value;
use crate::{Environment, Operation, Place, SecretText, StoreError, Vault, clock};

/// PostgreSQL keeps no zero byte in text, so no database may.
#[derive(Debug, thiserror::Error)]
#[error("text with a zero byte cannot be kept")]
struct ZeroByte;

/// Brings values into the form in which they are kept, with errors that say which column.
pub(crate) struct Writing {
    pub(crate) operation: Operation,
}

impl Writing {
    pub(crate) fn text(&self, column: &'static str, text: impl Into<String>) -> Result<Value, StoreError> {
        self.text_optional(column, Some(text))
    }

    pub(crate) fn text_optional(
        &self,
        column: &'static str,
        text: Option<impl Into<String>>,
    ) -> Result<Value, StoreError> {
        let text = text.map(Into::into);
        match &text {
            Some(text) if text.contains('\0') => Err(self.unwritable(column, ZeroByte)),
            _ => Ok(Value::Text(text)),
        }
    }

    pub(crate) fn json(&self, column: &'static str, value: &impl Serialize) -> Result<Value, StoreError> {
        let text = serde_json::to_string(value).map_err(|cause| self.unwritable(column, cause))?;
        if has_zero_byte(&text) {
            return Err(self.unwritable(column, ZeroByte));
        }
        Ok(Value::Json(Some(text)))
    }

    pub(crate) fn json_optional(
        &self,
        column: &'static str,
        value: &Option<impl Serialize>,
    ) -> Result<Value, StoreError> {
        value.as_ref().map_or(Ok(Value::Json(None)), |value| self.json(column, value))
    }

    /// Environment variables, sealed for the row with this id. None at all are NULL.
    pub(crate) fn sealed(
        &self,
        column: &'static str,
        place: Place<'_>,
        environment: &Environment,
        vault: &Vault,
    ) -> Result<Value, StoreError> {
        if environment.is_empty() {
            return Ok(Value::Bytes(None));
        }
        let json = environment.to_json().map_err(|cause| self.unwritable(column, cause))?;
        let sealed = vault.seal(place, &json).map_err(|cause| self.unwritable(column, cause))?;
        Ok(Value::Bytes(Some(sealed)))
    }

    /// A secret text, sealed for this place.
    pub(crate) fn sealed_text(
        &self,
        column: &'static str,
        place: Place<'_>,
        text: &SecretText,
        vault: &Vault,
    ) -> Result<Value, StoreError> {
        let sealed = vault.seal(place, text.expose().as_bytes());
        Ok(Value::Bytes(Some(sealed.map_err(|cause| self.unwritable(column, cause))?)))
    }

    fn unwritable(&self, column: &'static str, cause: impl Error + Send + Sync + 'static) -> StoreError {
        StoreError::UnwritableValue { operation: self.operation, column, cause: Box::new(cause) }
    }
}

/// Whether a string in this JSON has a zero byte, which is always written `\u0000`.
fn has_zero_byte(json: &str) -> bool {
    json.match_indices("\\u0000").any(|(at, _)| {
        let backslashes = json[..at].bytes().rev().take_while(|&byte| byte == b'\\').count();
        // After an odd number, this backslash is itself the escaped one.
        backslashes % 2 == 0
    })
}

impl Value {
    pub(crate) fn id(id: Uuid) -> Self {
        Self::Id(Some(id))
    }

    /// A word of a vocabulary of ours.
    pub(crate) fn word(word: &'static str) -> Self {
        Self::Text(Some(word.to_owned()))
    }

    pub(crate) fn word_optional(word: Option<&'static str>) -> Self {
        Self::Text(word.map(str::to_owned))
    }

    /// An instant, to the millisecond.
    pub(crate) fn instant(instant: OffsetDateTime) -> Self {
        Self::Instant(Some(clock::to_stored_precision(instant)))
    }

    pub(crate) fn instant_optional(instant: Option<OffsetDateTime>) -> Self {
        Self::Instant(instant.map(clock::to_stored_precision))
    }

    /// How many rows to give.
    /// One more than a page has tells whether there is another page.
    pub(crate) fn one_more(limit: NonZeroU32) -> Self {
        Self::Integer(Some(i64::from(limit.get()) + 1))
    }

    pub(crate) fn integer(number: impl Into<i64>) -> Self {
        Self::Integer(Some(number.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::has_zero_byte;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn zero_bytes_are_found_in_json(text in "[\\\\u0\u{0}a\"]{0,12}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(has_zero_byte(&json), text.contains('\0'), "{}", json);
        }
    }
}
