//! The trait every database implements.

use std::num::NonZeroU32;

use async_trait::async_trait;
use emergent_types::{SnapshotId, WorkspaceId};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    ApiToken, AttachError, Attachment, AuditCursor, AuditEntry, AuditFilter, AuditFinish, AuditPage,
    ClaimResumeError, GitCredential, IdempotencyKey, InsertSnapshotError, InsertTokenError,
    InsertWorkspaceError, Installation, KnownWorkspace, McpServerRow, Revocation, SnapshotCursor,
    SnapshotFilter, SnapshotPage, SnapshotRow, SnapshotStatus, StoreError, TokenCursor, TokenFilter,
    TokenHash, TokenId, TokenPage, UpdateWorkspaceError, WorkspaceCursor, WorkspaceFilter, WorkspacePage,
    WorkspaceRow, WorkspaceUpdate,
};

/// That a workspace was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// Which one.
    pub id: WorkspaceId,
    /// When.
    pub last_used_at: OffsetDateTime,
    /// When it ends now; `None` is never.
    pub expires_at: Option<OffsetDateTime>,
}

/// Where the control plane remembers.
///
/// Rules that hold for every method:
///
/// - **Atomic.** A method that writes is one transaction: it happens entirely or not at all,
///   and nobody sees it half done. On error nothing has changed; only after
///   [`StoreError::Unavailable`], when the answer was lost on the way, that is not known.
/// - **Durable.** When a write has returned `Ok`, it survives a `kill -9` of this process and
///   a loss of power.
/// - **Read your writes.** A read that starts after a write returned sees it.
/// - **Cancellation.** Dropping the returned future leaves the write done or not done, never
///   half done, and the store usable; whoever drops it must look to know which.
/// - **Concurrency.** Any number of tasks may call at once. Writes queue; reads do not wait
///   for writes.
#[async_trait]
pub trait Store: Send + Sync {
    /// Who this installation is. Made when the database was first opened; the same ever
    /// after.
    fn installation(&self) -> &Installation;

    /// Writes a new row. Where it [takes a place](WorkspaceRow::takes_a_place), the places
    /// are counted and this one is taken in the same transaction: with `max_active` taken
    /// already, the answer is [`InsertWorkspaceError::LimitReached`].
    ///
    /// With a `key`, that is taken in the same transaction, too. One that was seen before is
    /// [`InsertWorkspaceError::KeyKnown`], whatever else would have been said. A refused
    /// insert takes no key.
    async fn insert_workspace(
        &self,
        row: &WorkspaceRow,
        max_active: u32,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertWorkspaceError>;

    /// Makes a ready member of a pool somebody's workspace: writes `row` in place of the member's, whose id
    /// it has, under the same limit and key as [`insert_workspace`](Self::insert_workspace) and in one
    /// transaction. [`InsertWorkspaceError::NotInPool`] where no ready member has that id.
    async fn claim_member(
        &self,
        row: &WorkspaceRow,
        max_active: u32,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertWorkspaceError>;

    /// Registers an MCP server: writes the row of its sandbox and its own, which have the same id, in one
    /// transaction, with its key. [`InsertWorkspaceError::NameTaken`] where another has its name. Takes no place.
    /// Removing the sandbox's row removes both.
    async fn insert_mcp_server(
        &self,
        workspace: &WorkspaceRow,
        server: &McpServerRow,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertWorkspaceError>;

    /// Every MCP server, oldest first.
    async fn list_mcp_servers(&self) -> Result<Vec<McpServerRow>, StoreError>;

    /// One MCP server.
    async fn get_mcp_server(&self, id: WorkspaceId) -> Result<Option<McpServerRow>, StoreError>;

    /// Writes what may change in an MCP server's row: all but id, name, image, provider, `image_defaults` and
    /// the time it was made. Returns whether there is such a row.
    async fn update_mcp_server(&self, row: &McpServerRow) -> Result<bool, StoreError>;

    /// Writes down what the author of an MCP server's image wants to be run. Returns whether there is such a
    /// row.
    async fn set_image_defaults(&self, id: WorkspaceId, defaults: &Value) -> Result<bool, StoreError>;

    /// Forgets the key under which this workspace was made, so that the same request may try
    /// again; for a create that failed before whoever waits for it. Returns whether there was
    /// one. Comes before the row is deleted: then a kill in between is repaired by repeating
    /// both.
    async fn release_idempotency_key(&self, id: WorkspaceId) -> Result<bool, StoreError>;

    /// The workspace that was made under this key, if one was.
    async fn find_idempotency_key(&self, key: &IdempotencyKey) -> Result<Option<KnownWorkspace>, StoreError>;

    /// Forgets the keys of workspaces, tokens and snapshots that were asked for before this time. Returns how
    /// many.
    async fn prune_idempotency_keys(&self, before: OffsetDateTime) -> Result<u64, StoreError>;

    /// Moves a stopped workspace to `resuming`, under the same limit as
    /// [`insert_workspace`](Self::insert_workspace) and in one transaction. Returns the row
    /// as it is now.
    ///
    /// Of several callers at once, one gets the row and the others
    /// [`ClaimResumeError::WrongStatus`].
    async fn claim_resume(&self, id: WorkspaceId, max_active: u32) -> Result<WorkspaceRow, ClaimResumeError>;

    /// Changes a row and returns it as it is now. With `expected_status` it is a
    /// compare-and-set.
    ///
    /// An update cannot make an inactive agent workspace active: that would go past the
    /// limit, see [`UpdateWorkspaceError::PlaceNotClaimed`].
    async fn update_workspace(
        &self,
        id: WorkspaceId,
        update: WorkspaceUpdate,
    ) -> Result<WorkspaceRow, UpdateWorkspaceError>;

    /// Records the use of many workspaces in one transaction. `last_used_at` never moves
    /// back; `expires_at` is set as given, but for persistent workspaces, which have none. Ids without a row are passed over, because a
    /// workspace may be gone by the time its last use is written. Of several for
    /// one id, the last counts. Returns how many rows there were.
    async fn touch_workspaces(&self, touches: &[Touch]) -> Result<u64, StoreError>;

    /// One row.
    async fn get_workspace(&self, id: WorkspaceId) -> Result<Option<WorkspaceRow>, StoreError>;

    /// A page of rows, newest first. A walk from the first page to the last sees every row
    /// that matches and is there throughout exactly once, whatever else comes and goes.
    async fn list_workspaces(
        &self,
        filter: WorkspaceFilter,
        after: Option<WorkspaceCursor>,
        limit: NonZeroU32,
    ) -> Result<WorkspacePage, StoreError>;

    /// Every row, oldest first, as of one moment: what should exist.
    ///
    /// One unreadable row fails the whole call. Passing it over would make its sandbox look
    /// like an orphan, and orphans are destroyed.
    async fn workspaces_for_reconcile(&self) -> Result<Vec<WorkspaceRow>, StoreError>;

    /// Removes a row, whatever its status. Returns whether there was one, so it can be
    /// repeated.
    async fn delete_workspace(&self, id: WorkspaceId) -> Result<bool, StoreError>;

    /// How many places are taken.
    async fn count_active(&self) -> Result<u32, StoreError>;

    /// Writes a new snapshot's row, where there are fewer than `max`, in one transaction. With a key that was
    /// used before it is `KeyKnown`, and nothing is changed.
    async fn insert_snapshot(
        &self,
        row: &SnapshotRow,
        max: u32,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertSnapshotError>;

    /// Writes a new status. Returns whether there is such a row.
    async fn set_snapshot_status(&self, id: SnapshotId, status: SnapshotStatus) -> Result<bool, StoreError>;

    /// One snapshot's row.
    async fn get_snapshot(&self, id: SnapshotId) -> Result<Option<SnapshotRow>, StoreError>;

    /// A page of snapshots, newest first, with the same promise as
    /// [`list_workspaces`](Self::list_workspaces).
    async fn list_snapshots(
        &self,
        filter: SnapshotFilter,
        after: Option<SnapshotCursor>,
        limit: NonZeroU32,
    ) -> Result<SnapshotPage, StoreError>;

    /// Every snapshot's row, oldest first: what should exist.
    async fn snapshots_for_reconcile(&self) -> Result<Vec<SnapshotRow>, StoreError>;

    /// Removes a snapshot's row. Returns whether there was one.
    async fn delete_snapshot(&self, id: SnapshotId) -> Result<bool, StoreError>;

    /// Lets a session into a workspace, where no other is: writes it into the row and into the history, in
    /// one transaction. The same session again changes nothing. Returns the row as it is now.
    async fn attach(
        &self,
        id: WorkspaceId,
        session: Uuid,
        at: OffsetDateTime,
    ) -> Result<WorkspaceRow, AttachError>;

    /// Lets the session of a workspace go: a certain one, or whoever is there. Where that one is not there
    /// nothing changes. Returns the row as it is now; `None` where there is no such workspace.
    async fn detach(
        &self,
        id: WorkspaceId,
        session: Option<Uuid>,
        at: OffsetDateTime,
    ) -> Result<Option<WorkspaceRow>, StoreError>;

    /// The sessions that work and have worked in a workspace, in order. Gone with the workspace.
    async fn attachments(&self, id: WorkspaceId) -> Result<Vec<Attachment>, StoreError>;

    /// What an administrator has set under this name while a server ran.
    async fn get_setting(&self, name: &str) -> Result<Option<Value>, StoreError>;

    /// Sets it.
    async fn put_setting(&self, name: &str, value: &Value) -> Result<(), StoreError>;

    /// The tokens of git hosts that are not GitHub, by host.
    async fn list_git_credentials(&self) -> Result<Vec<GitCredential>, StoreError>;

    /// The token of one host, given as `scheme://host:port`.
    async fn git_credential(&self, origin: &str) -> Result<Option<GitCredential>, StoreError>;

    /// Sets the token of a host, in the place of the one it had.
    async fn put_git_credential(&self, row: &GitCredential) -> Result<(), StoreError>;

    /// Forgets the token of a host. Returns whether there was one.
    async fn delete_git_credential(&self, origin: &str) -> Result<bool, StoreError>;

    /// Writes a new token. One that is made with another token is refused when that one has
    /// been revoked: whoever revokes a token has revoked all that it ever makes.
    ///
    /// With a `key`, that is taken in the same transaction. One that was seen before is
    /// [`InsertTokenError::KeyKnown`], whatever else would have been said. A refused insert takes
    /// no key. Keys of tokens and of workspaces have nothing to do with each other.
    async fn insert_token(
        &self,
        token: &ApiToken,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertTokenError>;

    /// The token with this hash, expired, revoked or neither.
    async fn find_token_by_hash(&self, hash: &TokenHash) -> Result<Option<ApiToken>, StoreError>;

    /// One token, expired, revoked or neither.
    async fn get_token(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError>;

    /// A page of tokens, newest first, with the same promise as
    /// [`list_workspaces`](Self::list_workspaces).
    async fn list_tokens(
        &self,
        filter: TokenFilter,
        after: Option<TokenCursor>,
        limit: NonZeroU32,
    ) -> Result<TokenPage, StoreError>;

    /// Revokes a token and every token that was made with it, directly or not, at once. What
    /// was revoked before keeps its time, so this can be repeated. `None` where there is no
    /// such token.
    async fn revoke_token(&self, id: TokenId, at: OffsetDateTime) -> Result<Option<Revocation>, StoreError>;

    /// Writes new entries into the audit log, all or none. One that is there already takes over what
    /// came of it since, if it was `running`; so this can be repeated when an answer was lost.
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError>;

    /// Writes how calls ended, all or none. Only what is `running` changes, so this can be
    /// repeated; what is not there, or has ended, is passed over. Returns how many changed.
    async fn finish_audit(&self, finishes: &[AuditFinish]) -> Result<u64, StoreError>;

    /// A page of the audit log, newest first, with the same promise as
    /// [`list_workspaces`](Self::list_workspaces).
    async fn list_audit(
        &self,
        filter: &AuditFilter,
        after: Option<AuditCursor>,
        limit: NonZeroU32,
    ) -> Result<AuditPage, StoreError>;

    /// Removes the oldest entries from before this time, `max_rows` at most, so that one call
    /// is short. Returns how many: fewer than `max_rows` means that no more are left.
    async fn prune_audit(&self, before: OffsetDateTime, max_rows: NonZeroU32) -> Result<u64, StoreError>;

    /// Marks every entry that is `running` as `interrupted`: for the start of a server, when
    /// nothing can be running. Returns how many there were.
    async fn interrupt_running_audit(&self) -> Result<u64, StoreError>;

    /// One cheap round trip to the database.
    async fn health(&self) -> Result<(), StoreError>;

    /// Finishes what is queued and closes the database tidily. Every later call answers
    /// [`StoreError::Closed`]. Not needed for durability: a store that is just dropped, or
    /// killed, loses nothing.
    async fn close(&self);
}
