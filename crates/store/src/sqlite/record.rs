//! Reading typed values out of a row, with errors that say which row and which column.

use std::error::Error;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};
use time::OffsetDateTime;

use crate::{StoreError, clock};

/// One row of a table whose key is a text column `id`.
pub(super) struct Record<'a> {
    table: &'static str,
    row: &'a SqliteRow,
}

impl<'a> Record<'a> {
    pub(super) fn new(table: &'static str, row: &'a SqliteRow) -> Self {
        Self { table, row }
    }

    /// A value as the database has it.
    pub(super) fn get<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: Decode<'a, Sqlite> + Type<Sqlite>,
    {
        self.row.try_get(column).map_err(|error| self.unreadable(column, error))
    }

    /// A word of a vocabulary, or an id.
    pub(super) fn parse<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        self.get::<&str>(column)?.parse().map_err(|error| self.unreadable(column, error))
    }

    /// A word of a vocabulary, or an id, or NULL.
    pub(super) fn parse_optional<T>(&self, column: &'static str) -> Result<Option<T>, StoreError>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        let text: Option<&str> = self.get(column)?;
        text.map(str::parse).transpose().map_err(|error| self.unreadable(column, error))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, StoreError> {
        serde_json::from_str(self.get(column)?).map_err(|error| self.unreadable(column, error))
    }

    pub(super) fn json_optional<T: DeserializeOwned>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let text: Option<&str> = self.get(column)?;
        text.map(serde_json::from_str).transpose().map_err(|error| self.unreadable(column, error))
    }

    pub(super) fn instant(&self, column: &'static str) -> Result<OffsetDateTime, StoreError> {
        clock::from_millis(self.get(column)?).map_err(|error| self.unreadable(column, error))
    }

    pub(super) fn instant_optional(
        &self,
        column: &'static str,
    ) -> Result<Option<OffsetDateTime>, StoreError> {
        let millis: Option<i64> = self.get(column)?;
        millis.map(clock::from_millis).transpose().map_err(|error| self.unreadable(column, error))
    }

    /// The error for a column that makes no sense.
    pub(super) fn unreadable(
        &self,
        column: &'static str,
        cause: impl Error + Send + Sync + 'static,
    ) -> StoreError {
        StoreError::UnreadableRow {
            row: self.row.try_get("id").unwrap_or_else(|_| "a row without an id".to_owned()),
            column: format!("{}.{column}", self.table),
            cause: Box::new(cause),
        }
    }
}
