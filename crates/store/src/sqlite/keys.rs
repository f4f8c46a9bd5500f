//! `core_idempotency_keys`, `core_token_idempotency_keys` and `core_snapshot_idempotency_keys`.

use emergent_types::WorkspaceId;
use sqlx::SqliteConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::SqliteStore;
use super::failure::because;
use super::statement::{DIALECT, query};
use crate::columns::keys::{self, KnownKey, ToMake};
use crate::{IdempotencyKey, KnownWorkspace, Operation, StoreError};

impl SqliteStore {
    pub(super) async fn release_key(&self, id: WorkspaceId) -> Result<bool, StoreError> {
        let release = query(keys::release(&DIALECT, id));
        let done =
            release.execute(&self.writer).await.map_err(because(Operation::ReleaseIdempotencyKey(id)))?;
        Ok(done.rows_affected() > 0)
    }

    /// The workspace that was made under a key.
    pub(super) async fn find_workspace_key(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<KnownWorkspace>, StoreError> {
        let found = self.read(Operation::FindIdempotencyKey, keys::find(&DIALECT, DIALECT.keys, key)).await?;
        found.first().map(|row| keys::known_workspace(&DIALECT, key, row)).transpose()
    }

    pub(super) async fn prune_keys(&self, before: OffsetDateTime) -> Result<u64, StoreError> {
        let operation = Operation::PruneIdempotencyKeys;
        let mut transaction = self.begin(operation).await?;
        let mut forgotten = 0;
        for prune in keys::prune(&DIALECT, before) {
            let done = query(prune).execute(&mut *transaction).await.map_err(because(operation))?;
            forgotten += done.rows_affected();
        }
        transaction.commit().await.map_err(because(operation))?;
        Ok(forgotten)
    }
}

/// Takes a key; says whose it is where it is taken.
pub(super) async fn take<Id: From<Uuid>>(
    connection: &mut SqliteConnection,
    make: &ToMake<'_>,
) -> Result<Option<KnownKey<Id>>, StoreError> {
    let take = query(make.take(&DIALECT)?);
    let taken = take.execute(&mut *connection).await.map_err(because(make.operation))?;
    if taken.rows_affected() > 0 {
        return Ok(None);
    }
    let find = query(make.find(&DIALECT));
    let found = find.fetch_one(connection).await.map_err(because(make.operation))?;
    make.known(&found).map(Some)
}
