//! Statements that both dialects understand.

use super::keys::KeyTable;
use super::{Column, Value};

/// Where the dialects differ in statements that otherwise read the same.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) workspaces: &'static str,
    pub(crate) tokens: &'static str,
    pub(crate) keys: KeyTable,
    pub(crate) token_keys: KeyTable,
    pub(crate) snapshot_keys: KeyTable,
    pub(crate) audit: &'static str,
    pub(crate) snapshots: &'static str,
    pub(crate) attachments: &'static str,
    pub(crate) settings: &'static str,
    pub(crate) mcp_servers: &'static str,
    pub(crate) git_credentials: &'static str,
    /// What makes JSON out of the text before it.
    pub(crate) json_cast: &'static str,
}

/// SQL and the values of its `$1`, `$2` and so on, which both databases know.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    dialect: &'static Dialect,
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

impl Statement {
    pub(super) fn new(dialect: &'static Dialect, sql: impl Into<String>) -> Self {
        Self { dialect, sql: sql.into(), values: Vec::new() }
    }

    /// Locks the rows that a `SELECT` finds, where a database has such locks.
    pub(crate) fn for_update(self) -> Self {
        self.push(" FOR UPDATE")
    }

    /// Adds to the text.
    pub(super) fn push(mut self, sql: &str) -> Self {
        self.sql.push_str(sql);
        self
    }

    /// Adds a value.
    pub(super) fn bind(mut self, value: Value) -> Self {
        let cast = if let Value::Json(_) = value { self.dialect.json_cast } else { "" };
        self.values.push(value);
        let number = self.values.len();
        self.push(&format!("${number}{cast}"))
    }

    /// Adds a condition where there is something to compare with, and nothing otherwise, so
    /// that each condition can use its index.
    pub(super) fn bind_some(self, sql: &str, value: Option<Value>) -> Self {
        match value {
            Some(value) => self.push(sql).bind(value),
            None => self,
        }
    }

    /// An `INSERT` of rows that have the same columns.
    pub(super) fn insert(dialect: &'static Dialect, table: &str, rows: Vec<Vec<Column>>) -> Self {
        let names: Vec<_> = rows.first().into_iter().flatten().map(|(name, _)| *name).collect();
        let mut statement = Self::new(dialect, format!("INSERT INTO {table} ({}) VALUES ", names.join(", ")));
        for (number, row) in rows.into_iter().enumerate() {
            statement = statement.push(if number == 0 { "(" } else { ", (" });
            for (number, (_, value)) in row.into_iter().enumerate() {
                statement = statement.push(if number == 0 { "" } else { ", " }).bind(value);
            }
            statement = statement.push(")");
        }
        statement
    }

    /// An `UPDATE` of these columns, without a condition yet.
    pub(super) fn update(dialect: &'static Dialect, table: &str, columns: Vec<Column>) -> Self {
        let mut statement = Self::new(dialect, format!("UPDATE {table} SET "));
        for (number, (name, value)) in columns.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            statement = statement.push(&format!("{comma}{name} = ")).bind(value);
        }
        statement
    }
}
