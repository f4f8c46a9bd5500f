//! What can go wrong, per family of operations.
//!
//! [`StoreError`] is about the database itself and can come from anywhere; the others add
//! what only their operation can answer ("no such row", "no place left").

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use emergent_types::{SnapshotId, WorkspaceId, WorkspaceStatus};
use uuid::Uuid;

use crate::{TokenId, VaultError};

/// The cause of an error, without the driver's types.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// What the store was asked to do, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of the trait with the same name")]
pub enum Operation {
    Open,
    Health,
    InsertWorkspace(WorkspaceId),
    ClaimMember(WorkspaceId),
    ClaimResume(WorkspaceId),
    UpdateWorkspace(WorkspaceId),
    TouchWorkspaces {
        count: usize,
    },
    GetWorkspace(WorkspaceId),
    ListWorkspaces,
    WorkspacesForReconcile,
    DeleteWorkspace(WorkspaceId),
    CountActive,
    InsertToken(TokenId),
    FindTokenByHash,
    GetToken(TokenId),
    ListTokens,
    RevokeToken(TokenId),
    ReleaseIdempotencyKey(WorkspaceId),
    PruneIdempotencyKeys,
    /// Look for a key.
    FindIdempotencyKey,
    InsertSnapshot(SnapshotId),
    UpdateSnapshot(SnapshotId),
    GetSnapshot(SnapshotId),
    ListSnapshots,
    DeleteSnapshot(SnapshotId),
    Attach(WorkspaceId),
    Detach(WorkspaceId),
    ListAttachments(WorkspaceId),
    ListMcpServers,
    UpdateMcpServer(WorkspaceId),
    GetSetting,
    PutSetting,
    ReadGitCredentials,
    PutGitCredential,
    DeleteGitCredential,
    AppendAudit {
        count: usize,
    },
    FinishAudit {
        count: usize,
    },
    ListAudit,
    PruneAudit,
    InterruptRunningAudit,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open the database"),
            Self::Health => f.write_str("check the database"),
            Self::InsertWorkspace(id) => write!(f, "insert workspace {id}"),
            Self::ClaimMember(id) => write!(f, "take workspace {id} out of its pool"),
            Self::ClaimResume(id) => write!(f, "claim a place for workspace {id}"),
            Self::UpdateWorkspace(id) => write!(f, "update workspace {id}"),
            Self::TouchWorkspaces { count } => write!(f, "record the use of {count} workspaces"),
            Self::GetWorkspace(id) => write!(f, "get workspace {id}"),
            Self::ListWorkspaces => f.write_str("list workspaces"),
            Self::WorkspacesForReconcile => f.write_str("list workspaces for reconcile"),
            Self::DeleteWorkspace(id) => write!(f, "delete workspace {id}"),
            Self::CountActive => f.write_str("count active workspaces"),
            Self::InsertToken(id) => write!(f, "insert token {id}"),
            Self::FindTokenByHash => f.write_str("find a token"),
            Self::GetToken(id) => write!(f, "get token {id}"),
            Self::ListTokens => f.write_str("list tokens"),
            Self::RevokeToken(id) => write!(f, "revoke token {id}"),
            Self::ReleaseIdempotencyKey(id) => write!(f, "release the idempotency key of workspace {id}"),
            Self::FindIdempotencyKey => f.write_str("find an idempotency key"),
            Self::PruneIdempotencyKeys => f.write_str("forget old idempotency keys"),
            Self::InsertSnapshot(id) => write!(f, "insert snapshot {id}"),
            Self::UpdateSnapshot(id) => write!(f, "update snapshot {id}"),
            Self::GetSnapshot(id) => write!(f, "get snapshot {id}"),
            Self::ListSnapshots => f.write_str("list snapshots"),
            Self::DeleteSnapshot(id) => write!(f, "delete snapshot {id}"),
            Self::Attach(id) => write!(f, "attach a session to workspace {id}"),
            Self::Detach(id) => write!(f, "detach the session of workspace {id}"),
            Self::ListAttachments(id) => write!(f, "list the sessions of workspace {id}"),
            Self::ListMcpServers => f.write_str("list MCP servers"),
            Self::UpdateMcpServer(id) => write!(f, "update MCP server {id}"),
            Self::GetSetting => f.write_str("read a setting"),
            Self::PutSetting => f.write_str("write a setting"),
            Self::ReadGitCredentials => f.write_str("read the tokens of git hosts"),
            Self::PutGitCredential => f.write_str("write the token of a git host"),
            Self::DeleteGitCredential => f.write_str("remove the token of a git host"),
            Self::AppendAudit { count } => write!(f, "write {count} entries to the audit log"),
            Self::FinishAudit { count } => write!(f, "finish {count} entries of the audit log"),
            Self::ListAudit => f.write_str("list the audit log"),
            Self::PruneAudit => f.write_str("remove old entries of the audit log"),
            Self::InterruptRunningAudit => f.write_str("mark interrupted entries of the audit log"),
        }
    }
}

/// The database could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else held the database, or the queue was too long.
    #[error("cannot {operation}: the database is busy")]
    Busy {
        /// What was asked.
        operation: Operation,
    },
    /// The database is away, or does not answer in time. A write may have been done or not:
    /// whoever has to know must look when it is back.
    #[error("cannot {operation}: the database does not answer")]
    Unavailable {
        /// What was asked.
        operation: Operation,
        /// What is known about it.
        #[source]
        cause: Cause,
    },
    /// Another server uses this database now. What this one knows is out of date, so it does
    /// not write any more.
    #[error("cannot {operation}: another server has taken over the database; this one has to be restarted")]
    Superseded {
        /// What was asked.
        operation: Operation,
    },
    /// There is no room for a write.
    #[error("cannot {operation}: the disk of the database is full")]
    DiskFull {
        /// What was asked.
        operation: Operation,
    },
    /// What is kept is not what was written.
    #[error("cannot {operation}: the database is damaged: {detail}")]
    Damaged {
        /// What was asked.
        operation: Operation,
        /// What was found.
        detail: String,
    },
    /// The store has been closed.
    #[error("cannot {operation}: the store is closed")]
    Closed {
        /// What was asked.
        operation: Operation,
    },
    /// A row does not mean anything to this version.
    #[error("cannot read {column} of {row}")]
    UnreadableRow {
        /// The row's id.
        row: String,
        /// Table and column.
        column: String,
        /// Why not.
        #[source]
        cause: Cause,
    },
    /// A value cannot be brought into the form in which it is kept.
    #[error("cannot {operation}: {column} cannot be written")]
    UnwritableValue {
        /// What was asked.
        operation: Operation,
        /// The column.
        column: &'static str,
        /// Why not.
        #[source]
        cause: Cause,
    },
    /// Anything else the database said.
    #[error("cannot {operation}")]
    Database {
        /// What was asked.
        operation: Operation,
        /// What it said.
        #[source]
        cause: Cause,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without anything being repaired.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Unavailable { .. } | Self::DiskFull { .. } => true,
            Self::Superseded { .. }
            | Self::Damaged { .. }
            | Self::Closed { .. }
            | Self::UnreadableRow { .. }
            | Self::UnwritableValue { .. }
            | Self::Database { .. } => false,
        }
    }
}

/// A store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server uses this database.
    #[error("{database} is already in use{}", by(.holder))]
    AlreadyInUse {
        /// The database.
        database: String,
        /// Who uses it, where it could be found out.
        holder: Option<String>,
    },
    /// What names the database is not something that can be opened.
    #[error("not the URL of a database: {reason}")]
    InvalidUrl {
        /// What is wrong with it. The URL itself may hold a password.
        reason: String,
    },
    /// The file or its lock cannot be made or opened.
    #[error("cannot open {}", .path.display())]
    Inaccessible {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
    /// The server does not prove who it is, or does not encrypt.
    #[error(
        "{database} cannot be trusted: no TLS connection as `sslmode` and `sslrootcert` of its URL demand"
    )]
    Untrusted {
        /// The database.
        database: String,
        /// What is wrong with its certificate.
        #[source]
        cause: Cause,
    },
    /// Not a database at all.
    #[error("{database} is not an SQLite database")]
    NotADatabase {
        /// The database.
        database: String,
    },
    /// A database of another program.
    #[error("{database} is a database of another program")]
    ForeignDatabase {
        /// The database.
        database: String,
    },
    /// The file is not what SQLite wrote.
    #[error("{database} is damaged: {detail}")]
    Damaged {
        /// The database.
        database: String,
        /// What was found.
        detail: String,
    },
    /// Written by a later version of this program.
    #[error(
        "{database} has schema version {found}, but this version of the program knows up to {known}: \
         use the newer version, or restore the database from a backup"
    )]
    SchemaTooNew {
        /// The database.
        database: String,
        /// The schema it has.
        found: i64,
        /// The latest schema this version knows.
        known: i64,
    },
    /// A migration was applied that differs from the one this version has.
    #[error("{database} was migrated by a different build: migration {version} differs")]
    SchemaDiverged {
        /// The database.
        database: String,
        /// The migration.
        version: i64,
    },
    /// The installation's secret cannot be opened; most often, this is the wrong key.
    #[error("{database}: the encryption key does not fit this database")]
    Vault {
        /// The database.
        database: String,
        /// What exactly.
        #[source]
        cause: VaultError,
    },
    /// The operating system gave no random bytes for a new installation.
    #[error("no random bytes for a new installation")]
    NoRandomness {
        /// What it said.
        #[source]
        cause: Cause,
    },
    /// The database could not do what it was asked.
    #[error("cannot open {database}")]
    Store {
        /// The database.
        database: String,
        /// What exactly.
        #[source]
        cause: StoreError,
    },
}

fn by(holder: &Option<String>) -> String {
    holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default()
}

impl OpenError {
    /// Whether opening may succeed later without anything being repaired.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::AlreadyInUse { .. } => true,
            Self::Store { cause, .. } => cause.is_retryable(),
            Self::Inaccessible { .. }
            | Self::InvalidUrl { .. }
            | Self::Untrusted { .. }
            | Self::NotADatabase { .. }
            | Self::ForeignDatabase { .. }
            | Self::Damaged { .. }
            | Self::SchemaTooNew { .. }
            | Self::SchemaDiverged { .. }
            | Self::Vault { .. }
            | Self::NoRandomness { .. } => false,
        }
    }
}

/// A workspace could not be inserted. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum InsertWorkspaceError {
    /// Every place is taken.
    #[error("no place for workspace {id}: {active} of {max} workspaces are active")]
    LimitReached {
        /// For whom.
        id: WorkspaceId,
        /// How many are active.
        active: u32,
        /// How many may be.
        max: u32,
    },
    /// There is a row with this id.
    #[error("workspace {id} exists already")]
    AlreadyExists {
        /// The id.
        id: WorkspaceId,
    },
    /// The owner is not a token of this installation.
    #[error("workspace {id}: its owner is not a known token")]
    UnknownOwner {
        /// The workspace.
        id: WorkspaceId,
        /// The owner it names.
        owner: Option<TokenId>,
    },
    /// There is no ready member of a pool with this id.
    #[error("workspace {id} is no ready member of a pool")]
    NotInPool {
        /// The id.
        id: WorkspaceId,
    },
    /// Another MCP server has this name.
    #[error("there is an MCP server {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The idempotency key was used before.
    #[error("the idempotency key belongs to workspace {workspace_id}")]
    KeyKnown {
        /// The workspace that was made under it. It may be gone by now.
        workspace_id: WorkspaceId,
        /// Whether it was the same request.
        same_request: bool,
    },
    /// The database itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A snapshot was not written down. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum InsertSnapshotError {
    /// There are as many as there may be.
    #[error("no room for snapshot {id}: there are {count} of {max}")]
    QuotaReached {
        /// For which.
        id: SnapshotId,
        /// How many there are.
        count: u32,
        /// How many there may be.
        max: u32,
    },
    /// The idempotency key was used before.
    #[error("the idempotency key belongs to snapshot {snapshot_id}")]
    KeyKnown {
        /// The snapshot that was made under it. It may be gone by now.
        snapshot_id: SnapshotId,
        /// Whether it was the same request.
        same_request: bool,
    },
    /// The database itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A session was not attached. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no such workspace.
    #[error("workspace {id} does not exist")]
    NotFound {
        /// Which.
        id: WorkspaceId,
    },
    /// Another session works there.
    #[error("workspace {id} is attached to session {holder}")]
    Held {
        /// Which.
        id: WorkspaceId,
        /// Who has it.
        holder: Uuid,
    },
    /// The database itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A stopped workspace could not be claimed for a resume. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimResumeError {
    /// No such row.
    #[error("workspace {id} does not exist")]
    NotFound {
        /// The id.
        id: WorkspaceId,
    },
    /// It is not stopped.
    #[error("workspace {id} is {status}, not stopped")]
    WrongStatus {
        /// The workspace.
        id: WorkspaceId,
        /// What it is.
        status: WorkspaceStatus,
    },
    /// Every place is taken.
    #[error("no place to resume workspace {id}: {active} of {max} workspaces are active")]
    LimitReached {
        /// For whom.
        id: WorkspaceId,
        /// How many are active.
        active: u32,
        /// How many may be.
        max: u32,
    },
    /// The database itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A workspace could not be updated. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateWorkspaceError {
    /// No such row.
    #[error("workspace {id} does not exist")]
    NotFound {
        /// The id.
        id: WorkspaceId,
    },
    /// It does not have the status that the update is for.
    #[error("workspace {id} is {actual}, not {expected}")]
    WrongStatus {
        /// The workspace.
        id: WorkspaceId,
        /// What it had to be.
        expected: WorkspaceStatus,
        /// What it is.
        actual: WorkspaceStatus,
    },
    /// The update would make an inactive workspace active past the concurrency limit. Only
    /// an insert and a claim for a resume may.
    #[error("workspace {id} cannot go from {from} to {to} without claiming a place")]
    PlaceNotClaimed {
        /// The workspace.
        id: WorkspaceId,
        /// What it is.
        from: WorkspaceStatus,
        /// What it was to be.
        to: WorkspaceStatus,
    },
    /// The database itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A token could not be inserted. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum InsertTokenError {
    /// There is a token with this id or this hash.
    #[error("token {id} exists already")]
    AlreadyExists {
        /// The id.
        id: TokenId,
    },
    /// The token it is made with is not a token of this installation.
    #[error("token {id}: its owner is not a known token")]
    UnknownOwner {
        /// The new token.
        id: TokenId,
        /// The owner it names.
        owner: TokenId,
    },
    /// The token it is made with has been revoked.
    #[error("token {id}: its owner {owner} is revoked")]
    OwnerRevoked {
        /// The new token.
        id: TokenId,
        /// The owner it names.
        owner: TokenId,
    },
    /// The idempotency key was used before.
    #[error("the idempotency key belongs to token {token_id}")]
    KeyKnown {
        /// The token that was made under it. It may be revoked by now.
        token_id: TokenId,
        /// Whether it was the same request.
        same_request: bool,
    },
    /// The database itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InsertWorkspaceError {
    /// Whether the same call may succeed later: also when a place becomes free.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::LimitReached { .. } => true,
            Self::Store(error) => error.is_retryable(),
            Self::AlreadyExists { .. }
            | Self::UnknownOwner { .. }
            | Self::NotInPool { .. }
            | Self::NameTaken { .. }
            | Self::KeyKnown { .. } => false,
        }
    }
}

impl ClaimResumeError {
    /// Whether the same call may succeed later: also when a place becomes free.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::LimitReached { .. } => true,
            Self::Store(error) => error.is_retryable(),
            Self::NotFound { .. } | Self::WrongStatus { .. } => false,
        }
    }
}

impl UpdateWorkspaceError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::NotFound { .. } | Self::WrongStatus { .. } | Self::PlaceNotClaimed { .. } => false,
        }
    }
}

impl InsertTokenError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::AlreadyExists { .. }
            | Self::UnknownOwner { .. }
            | Self::OwnerRevoked { .. }
            | Self::KeyKnown { .. } => false,
        }
    }
}
