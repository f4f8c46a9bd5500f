//! The trait, by a database's own methods: those of one table lie in one file, and an `impl` of a
//! trait cannot.

/// Implements [`Store`](crate::Store) for a store whose own methods do the work.
macro_rules! store_by_own_methods {
    ($store:ty) => {
        const _: () = {
            use std::num::NonZeroU32;

            use emergent_types::{SnapshotId, WorkspaceId};
            use serde_json::Value;
            use time::OffsetDateTime;
            use uuid::Uuid;

            use crate::workspace::NewOrMember;
            use crate::{
                ApiToken, AttachError, Attachment, AuditCursor, AuditEntry, AuditFilter, AuditFinish,
                AuditPage, ClaimResumeError, GitCredential, IdempotencyKey, InsertSnapshotError,
                InsertTokenError, InsertWorkspaceError, Installation, KnownWorkspace, McpServerRow,
                Revocation, SnapshotCursor, SnapshotFilter, SnapshotPage, SnapshotRow, SnapshotStatus, Store,
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
                    self.insert_workspace_row(row, max_active, key, NewOrMember::New).await
                }

                async fn claim_member(
                    &self,
                    row: &WorkspaceRow,
                    max_active: u32,
                    key: Option<&IdempotencyKey>,
                ) -> Result<(), InsertWorkspaceError> {
                    self.insert_workspace_row(row, max_active, key, NewOrMember::Member).await
                }

                async fn insert_mcp_server(
                    &self,
                    workspace: &WorkspaceRow,
                    server: &McpServerRow,
                    key: Option<&IdempotencyKey>,
                ) -> Result<(), InsertWorkspaceError> {
                    self.insert_workspace_row(workspace, u32::MAX, key, NewOrMember::Server(server)).await
                }

                async fn list_mcp_servers(&self) -> Result<Vec<McpServerRow>, StoreError> {
                    self.list_mcp_server_rows().await
                }

                async fn get_mcp_server(&self, id: WorkspaceId) -> Result<Option<McpServerRow>, StoreError> {
                    self.get_mcp_server_row(id).await
                }

                async fn update_mcp_server(&self, row: &McpServerRow) -> Result<bool, StoreError> {
                    self.update_mcp_server_row(row).await
                }

                async fn set_image_defaults(
                    &self,
                    id: WorkspaceId,
                    defaults: &Value,
                ) -> Result<bool, StoreError> {
                    self.set_image_defaults_of(id, defaults).await
                }

                async fn release_idempotency_key(&self, id: WorkspaceId) -> Result<bool, StoreError> {
                    self.release_key(id).await
                }

                async fn find_idempotency_key(
                    &self,
                    key: &IdempotencyKey,
                ) -> Result<Option<KnownWorkspace>, StoreError> {
                    self.find_workspace_key(key).await
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

                async fn delete_workspace(&self, id: WorkspaceId) -> Result<bool, StoreError> {
                    self.delete_workspace_row(id).await
                }

                async fn count_active(&self) -> Result<u32, StoreError> {
                    self.count_active_workspaces().await
                }

                async fn insert_snapshot(
                    &self,
                    row: &SnapshotRow,
                    max: u32,
                    key: Option<&IdempotencyKey>,
                ) -> Result<(), InsertSnapshotError> {
                    self.insert_snapshot_row(row, max, key).await
                }

                async fn set_snapshot_status(
                    &self,
                    id: SnapshotId,
                    status: SnapshotStatus,
                ) -> Result<bool, StoreError> {
                    self.update_snapshot_row(id, status).await
                }

                async fn get_snapshot(&self, id: SnapshotId) -> Result<Option<SnapshotRow>, StoreError> {
                    self.get_snapshot_row(id).await
                }

                async fn list_snapshots(
                    &self,
                    filter: SnapshotFilter,
                    after: Option<SnapshotCursor>,
                    limit: NonZeroU32,
                ) -> Result<SnapshotPage, StoreError> {
                    self.list_snapshot_rows(filter, after, limit).await
                }

                async fn snapshots_for_reconcile(&self) -> Result<Vec<SnapshotRow>, StoreError> {
                    self.all_snapshot_rows().await
                }

                async fn delete_snapshot(&self, id: SnapshotId) -> Result<bool, StoreError> {
                    self.delete_snapshot_row(id).await
                }

                async fn attach(
                    &self,
                    id: WorkspaceId,
                    session: Uuid,
                    at: OffsetDateTime,
                ) -> Result<WorkspaceRow, AttachError> {
                    self.attach_session(id, session, at).await
                }

                async fn detach(
                    &self,
                    id: WorkspaceId,
                    session: Option<Uuid>,
                    at: OffsetDateTime,
                ) -> Result<Option<WorkspaceRow>, StoreError> {
                    self.detach_session(id, session, at).await
                }

                async fn attachments(&self, id: WorkspaceId) -> Result<Vec<Attachment>, StoreError> {
                    self.attachment_rows(id).await
                }

                async fn get_setting(&self, name: &str) -> Result<Option<Value>, StoreError> {
                    self.setting(name).await
                }

                async fn put_setting(&self, name: &str, value: &Value) -> Result<(), StoreError> {
                    self.set_setting(name, value).await
                }

                async fn list_git_credentials(&self) -> Result<Vec<GitCredential>, StoreError> {
                    self.all_git_credentials().await
                }

                async fn git_credential(&self, origin: &str) -> Result<Option<GitCredential>, StoreError> {
                    self.git_credential_of(origin).await
                }

                async fn put_git_credential(&self, row: &GitCredential) -> Result<(), StoreError> {
                    self.set_git_credential(row).await
                }

                async fn delete_git_credential(&self, origin: &str) -> Result<bool, StoreError> {
                    self.remove_git_credential(origin).await
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
