//! Tokens for git hosts.

use super::{Columns, Dialect, Record, Statement, Value, Writing};
use crate::{GitCredential, Operation, Place, StoreError, Vault};

const TOKEN: &str = "token_encrypted";

/// One name for every database, so that a sealed value may be moved from one to another.
fn place(origin: &str) -> Place<'_> {
    Place { column: "core_git_credentials.token_encrypted", row: origin }
}

/// Sets one, in the place of the one that was there.
pub(crate) fn put(
    dialect: &'static Dialect,
    row: &GitCredential,
    vault: &Vault,
) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::PutGitCredential };
    let columns = vec![
        ("origin", writing.text("origin", &row.origin)?),
        ("username", writing.text("username", &row.username)?),
        (TOKEN, writing.sealed_text(TOKEN, place(&row.origin), &row.token, vault)?),
        ("owner_id", Value::Id(row.owner_id.map(|id| id.as_uuid()))),
        ("created_at", Value::instant(row.created_at)),
    ];
    Ok(Statement::insert(dialect, dialect.git_credentials, vec![columns]).push(
        " ON CONFLICT (origin) DO UPDATE SET username = excluded.username, \
         token_encrypted = excluded.token_encrypted, owner_id = excluded.owner_id, \
         created_at = excluded.created_at",
    ))
}

/// All of them, by host.
pub(crate) fn all(dialect: &'static Dialect) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} ORDER BY origin", dialect.git_credentials))
}

/// One.
pub(crate) fn get(dialect: &'static Dialect, origin: &str) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE origin = ", dialect.git_credentials))
        .bind(Value::Text(Some(origin.to_owned())))
}

/// Removes one.
pub(crate) fn delete(dialect: &'static Dialect, origin: &str) -> Statement {
    Statement::new(dialect, format!("DELETE FROM {} WHERE origin = ", dialect.git_credentials))
        .bind(Value::Text(Some(origin.to_owned())))
}

/// The meaning of a row.
pub(crate) fn decode<Row: Columns>(
    dialect: &'static Dialect,
    row: &Row,
    vault: &Vault,
) -> Result<GitCredential, StoreError> {
    let record = Record::new(dialect.git_credentials, row);
    let origin = record.text("origin")?;
    Ok(GitCredential {
        username: record.text("username")?,
        token: record.sealed_text(TOKEN, place(&origin), vault)?,
        owner_id: record.id_optional("owner_id")?,
        created_at: record.instant("created_at")?,
        origin,
    })
}
