//! Reading typed values out of a row, with errors that say which row and which column.

use std::error::Error;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::Cause;
use crate::{Environment, Place, SecretText, StoreError, Vault};

/// What a database's row can be asked for. NULL is `None`.
pub(crate) trait Columns {
    fn id(&self, column: &str) -> Result<Option<Uuid>, Cause>;
    fn text(&self, column: &str) -> Result<Option<&str>, Cause>;
    fn instant(&self, column: &str) -> Result<Option<OffsetDateTime>, Cause>;
    fn json(&self, column: &str) -> Result<Option<&str>, Cause>;
    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, Cause>;
    fn integer(&self, column: &str) -> Result<Option<i64>, Cause>;
    fn flag(&self, column: &str) -> Result<Option<bool>, Cause>;
    /// The row's key, readable or not.
    fn key(&self) -> Option<String>;
}

/// There is NULL where something must be.
#[derive(Debug, thiserror::Error)]
#[error("it is NULL")]
struct UnexpectedNull;

/// One row of a table.
pub(crate) struct Record<'a, Row> {
    table: &'static str,
    row: &'a Row,
}

impl<'a, Row: Columns> Record<'a, Row> {
    pub(crate) fn new(table: &'static str, row: &'a Row) -> Self {
        Self { table, row }
    }

    pub(crate) fn id<T: From<Uuid>>(&self, column: &'static str) -> Result<T, StoreError> {
        self.present(column, self.id_optional(column)?)
    }

    pub(crate) fn id_optional<T: From<Uuid>>(&self, column: &'static str) -> Result<Option<T>, StoreError> {
        Ok(self.known(column, self.row.id(column))?.map(T::from))
    }

    pub(crate) fn text(&self, column: &'static str) -> Result<String, StoreError> {
        self.present(column, self.text_optional(column)?)
    }

    pub(crate) fn text_optional(&self, column: &'static str) -> Result<Option<String>, StoreError> {
        Ok(self.known(column, self.row.text(column))?.map(str::to_owned))
    }

    /// A word of a vocabulary.
    pub(crate) fn word<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        self.present(column, self.word_optional(column)?)
    }

    pub(crate) fn word_optional<T>(&self, column: &'static str) -> Result<Option<T>, StoreError>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        let word = self.known(column, self.row.text(column))?;
        word.map(str::parse).transpose().map_err(|error| self.unreadable(column, error))
    }

    pub(crate) fn instant(&self, column: &'static str) -> Result<OffsetDateTime, StoreError> {
        self.present(column, self.instant_optional(column)?)
    }

    pub(crate) fn instant_optional(
        &self,
        column: &'static str,
    ) -> Result<Option<OffsetDateTime>, StoreError> {
        self.known(column, self.row.instant(column))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, StoreError> {
        self.present(column, self.json_optional(column)?)
    }

    pub(crate) fn json_optional<T: DeserializeOwned>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let text = self.known(column, self.row.json(column))?;
        text.map(serde_json::from_str).transpose().map_err(|error| self.unreadable(column, error))
    }

    pub(crate) fn bytes_optional(&self, column: &'static str) -> Result<Option<&'a [u8]>, StoreError> {
        self.known(column, self.row.bytes(column))
    }

    pub(crate) fn bytes<const LENGTH: usize>(
        &self,
        column: &'static str,
    ) -> Result<[u8; LENGTH], StoreError> {
        let bytes = self.present(column, self.bytes_optional(column)?)?;
        bytes.try_into().map_err(|error| self.unreadable(column, error))
    }

    pub(crate) fn number<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: TryFrom<i64, Error: Error + Send + Sync + 'static>,
    {
        self.present(column, self.number_optional(column)?)
    }

    pub(crate) fn number_optional<T>(&self, column: &'static str) -> Result<Option<T>, StoreError>
    where
        T: TryFrom<i64, Error: Error + Send + Sync + 'static>,
    {
        let number = self.known(column, self.row.integer(column))?;
        number.map(T::try_from).transpose().map_err(|error| self.unreadable(column, error))
    }

    pub(crate) fn flag(&self, column: &'static str) -> Result<bool, StoreError> {
        self.present(column, self.known(column, self.row.flag(column))?)
    }

    /// Environment variables that were sealed for this place. NULL is none at all.
    pub(crate) fn environment(
        &self,
        column: &'static str,
        place: Place<'_>,
        vault: &Vault,
    ) -> Result<Environment, StoreError> {
        let Some(sealed) = self.bytes_optional(column)? else {
            return Ok(Environment::default());
        };
        let json = vault.open(place, sealed).map_err(|error| self.unreadable(column, error))?;
        Environment::from_json(&json).map_err(|error| self.unreadable(column, error))
    }

    /// A secret text that was sealed for this place; `None` where it is NULL.
    pub(crate) fn sealed_text_optional(
        &self,
        column: &'static str,
        place: Place<'_>,
        vault: &Vault,
    ) -> Result<Option<SecretText>, StoreError> {
        let Some(sealed) = self.bytes_optional(column)? else { return Ok(None) };
        let opened = vault.open(place, sealed).map_err(|error| self.unreadable(column, error))?;
        let text = std::str::from_utf8(&opened).map_err(|error| self.unreadable(column, error))?;
        Ok(Some(SecretText::from(text.to_owned())))
    }

    /// The same where it must be there.
    pub(crate) fn sealed_text(
        &self,
        column: &'static str,
        place: Place<'_>,
        vault: &Vault,
    ) -> Result<SecretText, StoreError> {
        let text = self.sealed_text_optional(column, place, vault)?;
        self.present(column, text)
    }

    /// The error for a column that makes no sense.
    pub(crate) fn unreadable(
        &self,
        column: &'static str,
        cause: impl Error + Send + Sync + 'static,
    ) -> StoreError {
        self.unreadable_because(column, Box::new(cause))
    }

    fn known<T>(&self, column: &'static str, value: Result<T, Cause>) -> Result<T, StoreError> {
        value.map_err(|cause| self.unreadable_because(column, cause))
    }

    fn present<T>(&self, column: &'static str, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.unreadable(column, UnexpectedNull))
    }

    fn unreadable_because(&self, column: &'static str, cause: Cause) -> StoreError {
        StoreError::UnreadableRow {
            row: self.row.key().unwrap_or_else(|| "a row without an id".to_owned()),
            column: format!("{}.{column}", self.table),
            cause,
        }
    }
}
