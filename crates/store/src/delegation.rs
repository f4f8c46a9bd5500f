//! The trait, by a database's own methods: those of one table lie in one file, and an `impl` of a
//! trait cannot.

/// Implements [`Store`](crate::Store) for a store whose own methods do the work.
macro_rules! store_by_own_methods {
    ($store:ty) => {
        const _: () = {
            use std::num::NonZeroU32;

            use emergent_types::WorkspaceId;
            use time::OffsetDateTime;

            use crate::{
                ApiToken, AuditCursor, AuditEntry, AuditFilter, AuditFinish, AuditPage, ClaimResumeError,
                IdempotencyKey, InsertTokenError, InsertWorkspaceError, Installation, Revocation, Store,
                StoreError, TokenCursor, TokenFilter, TokenHash, TokenId, TokenPage, Touch,
                UpdateWorkspaceError, WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow,
                WorkspaceUpdate,
            };

            #[async_trait::async_trait]
            impl Store for $store {
                fn installation(&self) -> &Installation {
                    &self.installation
                }

                async fn insert_workspace(
                    &self,
                    row: &WorkspaceRow,
                    max_active: u32,
                    key: Option<&IdempotencyKey>,
                ) -> Result<(), InsertWorkspaceError> {
                    self.insert_workspace_row(row, max_active, key).await
                }

                async fn release_idempotency_key(&self, id: WorkspaceId) -> Result<bool, StoreError> {
                    self.release_key(id).await
                }

                async fn prune_idempotency_keys(&self, before: OffsetDateTime) -> Result<u64, StoreError> {
                    self.prune_keys(before).await
                }

                async fn claim_resume(
                    &self,
                    id: WorkspaceId,
                    max_active: u32,
                ) -> Result<WorkspaceRow, ClaimResumeError> {
                    self.claim_workspace_resume(id, max_active).await
                }

                async fn update_workspace(
                    &self,
                    id: WorkspaceId,
                    update: WorkspaceUpdate,
                ) -> Result<WorkspaceRow, UpdateWorkspaceError> {
                    self.update_workspace_row(id, update).await
                }

                async fn touch_workspaces(&self, touches: &[Touch]) -> Result<u64, StoreError> {
                    self.touch_workspace_rows(touches).await
                }

                async fn get_workspace(&self, id: WorkspaceId) -> Result<Option<WorkspaceRow>, StoreError> {
                    self.get_workspace_row(id).await
                }

                async fn list_workspaces(
                    &self,
                    filter: WorkspaceFilter,
                    after: Option<WorkspaceCursor>,
                    limit: NonZeroU32,
                ) -> Result<WorkspacePage, StoreError> {
                    self.list_workspace_rows(filter, after, limit).await
                }

                async fn workspaces_for_reconcile(&self) -> Result<Vec<WorkspaceRow>, StoreError> {
                    self.all_workspace_rows().await
                }

                async fn expired(
                    &self,
                    now: OffsetDateTime,
                    limit: NonZeroU32,
                ) -> Result<Vec<WorkspaceId>, StoreError> {
                    self.expired_workspaces(now, limit).await
                }

                async fn delete_workspace(&self, id: WorkspaceId) -> Result<bool, StoreError> {
                    self.delete_workspace_row(id).await
                }

                async fn count_active(&self) -> Result<u32, StoreError> {
                    self.count_active_workspaces().await
                }

                async fn insert_token(
                    &self,
                    token: &ApiToken,
                    key: Option<&IdempotencyKey>,
                ) -> Result<(), InsertTokenError> {
                    self.insert_token_row(token, key).await
                }

                async fn find_token_by_hash(&self, hash: &TokenHash) -> Result<Option<ApiToken>, StoreError> {
                    self.find_token_row(hash).await
                }

                async fn get_token(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError> {
                    self.get_token_row(id).await
                }

                async fn list_tokens(
                    &self,
                    filter: TokenFilter,
                    after: Option<TokenCursor>,
                    limit: NonZeroU32,
                ) -> Result<TokenPage, StoreError> {
                    self.list_token_rows(filter, after, limit).await
                }

                async fn revoke_token(
                    &self,
                    id: TokenId,
                    at: OffsetDateTime,
                ) -> Result<Option<Revocation>, StoreError> {
                    self.revoke_token_row(id, at).await
                }

                async fn append_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
                    self.append_audit_rows(entries).await
                }

                async fn finish_audit(&self, finishes: &[AuditFinish]) -> Result<u64, StoreError> {
                    self.finish_audit_rows(finishes).await
                }

                async fn list_audit(
                    &self,
                    filter: &AuditFilter,
                    after: Option<AuditCursor>,
                    limit: NonZeroU32,
                ) -> Result<AuditPage, StoreError> {
                    self.list_audit_rows(filter, after, limit).await
                }

                async fn prune_audit(
                    &self,
                    before: OffsetDateTime,
                    max_rows: NonZeroU32,
                ) -> Result<u64, StoreError> {
                    self.prune_audit_rows(before, max_rows).await
                }

                async fn interrupt_running_audit(&self) -> Result<u64, StoreError> {
                    self.interrupt_running_audit_rows().await
                }

                async fn health(&self) -> Result<(), StoreError> {
                    self.check_health().await
                }

                async fn close(&self) {
                    self.close_connections().await;
                }
            }
        };
    };
}

pub(crate) use store_by_own_methods;
