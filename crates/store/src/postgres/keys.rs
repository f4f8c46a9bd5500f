//! `core.idempotency_keys`, `core.token_idempotency_keys` and `core.snapshot_idempotency_keys`.

use emergent_types::WorkspaceId;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::failure::because;
use super::statement::{DIALECT, query};
use super::{CALL_LIMIT, PostgresStore, commit, within};
use crate::columns::keys::{self, KnownKey, ToMake};
use crate::{IdempotencyKey, KnownWorkspace, Operation, StoreError};

impl PostgresStore {
    pub(super) async fn release_key(&self, id: WorkspaceId) -> Result<bool, StoreError> {
        let released = self.write(Operation::ReleaseIdempotencyKey(id), keys::release(&DIALECT, id)).await?;
        Ok(released > 0)
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
        let (transaction, forgotten) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let mut forgotten = 0;
            for prune in keys::prune(&DIALECT, before) {
                let done = query(prune).execute(&mut *transaction).await.map_err(because(operation))?;
                forgotten += done.rows_affected();
            }
            Ok::<_, StoreError>((transaction, forgotten))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(forgotten)
    }
}

/// Takes a key; says whose it is where it is taken. Waits for another transaction that is about to
/// take the same one.
pub(super) async fn take<Id: From<Uuid>>(
    connection: &mut PgConnection,
    make: &ToMake<'_>,
) -> Result<Option<KnownKey<Id>>, StoreError> {
    let operation = make.operation;
    let take = query(make.take(&DIALECT)?);
    let taken = take.execute(&mut *connection).await.map_err(because(operation))?;
    if taken.rows_affected() > 0 {
        return Ok(None);
    }
    let find = query(make.find(&DIALECT));
    match find.fetch_optional(connection).await.map_err(because(operation))? {
        Some(found) => make.known(&found).map(Some),
        // Forgotten between the two statements.
        None => Err(StoreError::Busy { operation }),
    }
}
