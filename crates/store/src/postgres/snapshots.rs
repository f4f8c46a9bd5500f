//! `kb.workspace_snapshots`.

use std::num::NonZeroU32;

use emergent_types::SnapshotId;

use super::failure::because;
use super::lock::{PLACES, lock_in_transaction};
use super::statement::{DIALECT, query};
use super::{CALL_LIMIT, PostgresStore, commit, keys, within};
use crate::columns::keys::{self as key_columns, ToMake};
use crate::columns::snapshots;
use crate::{
    IdempotencyKey, InsertSnapshotError, Operation, SnapshotCursor, SnapshotFilter, SnapshotPage,
    SnapshotRow, SnapshotStatus, StoreError,
};

impl PostgresStore {
    pub(super) async fn insert_snapshot_row(
        &self,
        row: &SnapshotRow,
        max: u32,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertSnapshotError> {
        let operation = Operation::InsertSnapshot(row.id);
        let insert = snapshots::insert(&DIALECT, row)?;
        let transaction = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            lock_in_transaction(&mut transaction, PLACES).await.map_err(because(operation))?;
            if let Some(key) = key {
                let make = ToMake::snapshot(&DIALECT, key, row);
                if let Some(known) = keys::take(&mut transaction, &make).await? {
                    return Err(known.into());
                }
            }
            let counted = query(snapshots::count(&DIALECT)).fetch_one(&mut *transaction).await;
            let count = snapshots::counted(&DIALECT, &counted.map_err(because(operation))?)?;
            if count >= max {
                return Err(InsertSnapshotError::QuotaReached { id: row.id, count, max });
            }
            query(insert).execute(&mut *transaction).await.map_err(because(operation))?;
            Ok(transaction)
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(())
    }

    pub(super) async fn update_snapshot_row(
        &self,
        id: SnapshotId,
        status: SnapshotStatus,
    ) -> Result<bool, StoreError> {
        let update = snapshots::update(&DIALECT, id, status);
        Ok(self.write(Operation::UpdateSnapshot(id), update).await? > 0)
    }

    pub(super) async fn get_snapshot_row(&self, id: SnapshotId) -> Result<Option<SnapshotRow>, StoreError> {
        let rows = self.read(Operation::GetSnapshot(id), snapshots::get(&DIALECT, id)).await?;
        rows.first().map(|row| snapshots::decode(&DIALECT, row)).transpose()
    }

    pub(super) async fn list_snapshot_rows(
        &self,
        filter: SnapshotFilter,
        after: Option<SnapshotCursor>,
        limit: NonZeroU32,
    ) -> Result<SnapshotPage, StoreError> {
        let list = snapshots::list(&DIALECT, filter, after, limit);
        snapshots::page(&DIALECT, &self.read(Operation::ListSnapshots, list).await?, limit)
    }

    pub(super) async fn all_snapshot_rows(&self) -> Result<Vec<SnapshotRow>, StoreError> {
        let rows = self.read(Operation::ListSnapshots, snapshots::all(&DIALECT)).await?;
        rows.iter().map(|row| snapshots::decode(&DIALECT, row)).collect()
    }

    pub(super) async fn delete_snapshot_row(&self, id: SnapshotId) -> Result<bool, StoreError> {
        let operation = Operation::DeleteSnapshot(id);
        let (transaction, deleted) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let release = query(key_columns::release_unfinished(&DIALECT, id));
            release.execute(&mut *transaction).await.map_err(because(operation))?;
            let delete = query(snapshots::delete(&DIALECT, id));
            let deleted = delete.execute(&mut *transaction).await.map_err(because(operation))?;
            Ok::<_, StoreError>((transaction, deleted.rows_affected() > 0))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(deleted)
    }
}
