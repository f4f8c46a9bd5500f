//! What an administrator has set while a server ran.

use super::{Columns, Dialect, Record, Statement, Value, Writing};
use crate::{Operation, StoreError, clock};

/// Sets one.
pub(crate) fn put(
    dialect: &'static Dialect,
    name: &str,
    value: &serde_json::Value,
) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::PutSetting };
    let columns = vec![
        ("name", writing.text("name", name)?),
        ("value", writing.json("value", value)?),
        ("updated_at", Value::instant(clock::now())),
    ];
    Ok(Statement::insert(dialect, dialect.settings, vec![columns])
        .push(" ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"))
}

/// One by its name.
pub(crate) fn get(dialect: &'static Dialect, name: &str) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE name = ", dialect.settings))
        .bind(Value::Text(Some(name.to_owned())))
}

/// What is set.
pub(crate) fn decode<Row: Columns>(
    dialect: &'static Dialect,
    row: &Row,
) -> Result<serde_json::Value, StoreError> {
    Record::new(dialect.settings, row).json("value")
}
