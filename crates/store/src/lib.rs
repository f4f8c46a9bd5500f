//! Where the control plane remembers: one trait, [`Store`], and SQLite or PostgreSQL behind it.
//!
//! ```text
//!   workspaces, api                  what they see: rows, updates, typed errors
//!        │
//!        ▼
//!   trait Store ◄─┬─ sqlite::SqliteStore ─────► one file, WAL, one writer, few readers
//!        │        └─ postgres::PostgresStore ─► schemas kb and core, which may go away for a while
//!        │                  │
//!        │                  ├── columns: what a row consists of, the same for both
//!        │                  └── vault: what is secret is sealed before it is written
//!        ▼
//!   tests/store/suite        every rule of the trait as a check over `&dyn Store`
//! ```
//!
//! Two promises carry the rest of the system. **What was acknowledged is durable**: when a
//! write returns, a `kill -9` or a power cut does not undo it. **A claim is exact**: the
//! concurrency limit is counted and taken in the same transaction, so that it cannot be
//! exceeded however many requests race for the last place.
//!
//! No type of the database driver appears in this interface.

mod attachment;
mod audit;
mod clock;
mod columns;
mod delegation;
mod error;
mod git_credential;
mod idempotency;
mod installation;
mod listing;
mod mcp_server;
mod migration;
mod open;
pub mod postgres;
mod repository;
mod secret;
mod snapshot;
pub mod sqlite;
mod store;
mod token;
mod vault;
mod violation;
mod workspace;
mod workspace_update;

pub use attachment::Attachment;
pub use audit::{
    AuditCursor, AuditEntry, AuditFilter, AuditFinish, AuditOutcome, AuditPage, UnknownAuditOutcome,
};
pub use clock::now;
pub use error::{
    AttachError, ClaimResumeError, InsertSnapshotError, InsertTokenError, InsertWorkspaceError, OpenError,
    Operation, StoreError, UpdateWorkspaceError,
};
pub use git_credential::GitCredential;
pub use idempotency::{IdempotencyKey, KnownWorkspace};
pub use installation::Installation;
pub use listing::{
    Cursor, Page, ParseCursorError, TokenCursor, TokenFilter, TokenPage, WorkspaceCursor, WorkspaceFilter,
    WorkspacePage,
};
pub use mcp_server::McpServerRow;
pub use open::open;
pub use repository::{Repository, RepositoryState};
pub use secret::{Environment, SecretKey, SecretKeyLengthError, SecretText};
pub use snapshot::{
    SnapshotCursor, SnapshotFilter, SnapshotPage, SnapshotRow, SnapshotStatus, UnknownSnapshotStatus,
};
pub use store::{Store, Touch};
pub use token::{ApiToken, Revocation, SessionScope, TokenHash, TokenId, TokenKind, UnknownTokenKind};
pub use vault::{KeyId, Place, Vault, VaultError};
pub use workspace::{AttemptOutcome, AttemptRecord, WorkspaceError, WorkspaceRow};
pub use workspace_update::{ErrorUpdate, WarningsUpdate, WorkspaceUpdate};
