//! Idempotency keys: one table for each kind of thing that is made under them.

use emergent_types::{SnapshotId, WorkspaceId};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Columns, Dialect, Record, Statement, Value, Writing};
use crate::{
    ApiToken, IdempotencyKey, InsertSnapshotError, InsertTokenError, InsertWorkspaceError, KnownWorkspace,
    Operation, SnapshotRow, SnapshotStatus, StoreError, TokenId, WorkspaceRow,
};

/// A table of keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyTable {
    pub(crate) name: &'static str,
    /// The column that names what was made.
    made: &'static str,
}

impl KeyTable {
    pub(crate) const fn of_workspaces(name: &'static str) -> Self {
        Self { name, made: "workspace_id" }
    }

    pub(crate) const fn of_tokens(name: &'static str) -> Self {
        Self { name, made: "token_id" }
    }

    pub(crate) const fn of_snapshots(name: &'static str) -> Self {
        Self { name, made: "snapshot_id" }
    }
}

/// What a key was used for.
pub(crate) struct KnownKey<Id> {
    pub(crate) made: Id,
    /// Whether by the same request.
    pub(crate) same_request: bool,
}

impl From<KnownKey<WorkspaceId>> for InsertWorkspaceError {
    fn from(known: KnownKey<WorkspaceId>) -> Self {
        Self::KeyKnown { workspace_id: known.made, same_request: known.same_request }
    }
}

impl From<KnownKey<TokenId>> for InsertTokenError {
    fn from(known: KnownKey<TokenId>) -> Self {
        Self::KeyKnown { token_id: known.made, same_request: known.same_request }
    }
}

impl From<KnownKey<SnapshotId>> for InsertSnapshotError {
    fn from(known: KnownKey<SnapshotId>) -> Self {
        Self::KeyKnown { snapshot_id: known.made, same_request: known.same_request }
    }
}

/// What is about to be made under a key.
pub(crate) struct ToMake<'a> {
    table: KeyTable,
    key: &'a IdempotencyKey,
    id: Uuid,
    at: OffsetDateTime,
    pub(crate) operation: Operation,
}

impl<'a> ToMake<'a> {
    pub(crate) fn workspace(dialect: &'static Dialect, key: &'a IdempotencyKey, row: &WorkspaceRow) -> Self {
        let operation = Operation::InsertWorkspace(row.id);
        Self { table: dialect.keys, key, id: row.id.as_uuid(), at: row.created_at, operation }
    }

    pub(crate) fn token(dialect: &'static Dialect, key: &'a IdempotencyKey, token: &ApiToken) -> Self {
        let operation = Operation::InsertToken(token.id);
        Self { table: dialect.token_keys, key, id: token.id.as_uuid(), at: token.created_at, operation }
    }

    pub(crate) fn snapshot(dialect: &'static Dialect, key: &'a IdempotencyKey, row: &SnapshotRow) -> Self {
        let operation = Operation::InsertSnapshot(row.id);
        Self { table: dialect.snapshot_keys, key, id: row.id.as_uuid(), at: row.created_at, operation }
    }

    /// Takes the key, unless it is taken.
    pub(crate) fn take(&self, dialect: &'static Dialect) -> Result<Statement, StoreError> {
        let writing = Writing { operation: self.operation };
        let columns = vec![
            ("owner_id", Value::id(self.key.owner.as_uuid())),
            ("key", writing.text("key", &self.key.key)?),
            ("fingerprint", Value::Bytes(Some(self.key.fingerprint.to_vec()))),
            (self.table.made, Value::id(self.id)),
            ("created_at", Value::instant(self.at)),
        ];
        Ok(Statement::insert(dialect, self.table.name, vec![columns])
            .push(" ON CONFLICT (owner_id, key) DO NOTHING"))
    }

    /// What is known about the key.
    pub(crate) fn find(&self, dialect: &'static Dialect) -> Statement {
        find(dialect, self.table, self.key)
    }

    /// The answer to somebody who uses a known key again.
    pub(crate) fn known<Row: Columns, Id: From<Uuid>>(&self, row: &Row) -> Result<KnownKey<Id>, StoreError> {
        known(self.table, self.key, row)
    }
}

fn known<Row: Columns, Id: From<Uuid>>(
    table: KeyTable,
    key: &IdempotencyKey,
    row: &Row,
) -> Result<KnownKey<Id>, StoreError> {
    let record = Record::new(table.name, row);
    let fingerprint: [u8; 32] = record.bytes("fingerprint")?;
    Ok(KnownKey { made: record.id(table.made)?, same_request: fingerprint == key.fingerprint })
}

/// The workspace that was made under a key.
pub(crate) fn known_workspace<Row: Columns>(
    dialect: &'static Dialect,
    key: &IdempotencyKey,
    row: &Row,
) -> Result<KnownWorkspace, StoreError> {
    let KnownKey { made, same_request } = known(dialect.keys, key, row)?;
    Ok(KnownWorkspace { id: made, same_request })
}

/// What is known about a key.
pub(crate) fn find(dialect: &'static Dialect, table: KeyTable, key: &IdempotencyKey) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE owner_id = ", table.name))
        .bind(Value::id(key.owner.as_uuid()))
        .push(" AND key = ")
        .bind(Value::Text(Some(key.key.clone())))
}

/// Forgets the key of one workspace.
pub(crate) fn release(dialect: &'static Dialect, id: WorkspaceId) -> Statement {
    Statement::new(dialect, format!("DELETE FROM {} WHERE workspace_id = ", dialect.keys.name))
        .bind(Value::id(id.as_uuid()))
}

/// Forgets the key of a snapshot that was never whole.
pub(crate) fn release_unfinished(dialect: &'static Dialect, id: SnapshotId) -> Statement {
    let (keys, snapshots) = (dialect.snapshot_keys.name, dialect.snapshots);
    Statement::new(dialect, format!("DELETE FROM {keys} WHERE snapshot_id = "))
        .bind(Value::id(id.as_uuid()))
        .push(&format!(" AND EXISTS (SELECT 1 FROM {snapshots} WHERE id = "))
        .bind(Value::id(id.as_uuid()))
        .push(" AND status = ")
        .bind(Value::word(SnapshotStatus::Creating.as_str()))
        .push(")")
}

/// Forgets old keys, by table.
pub(crate) fn prune(dialect: &'static Dialect, before: OffsetDateTime) -> [Statement; 3] {
    [dialect.keys, dialect.token_keys, dialect.snapshot_keys].map(|table| {
        Statement::new(dialect, format!("DELETE FROM {} WHERE created_at < ", table.name))
            .bind(Value::instant(before))
    })
}
