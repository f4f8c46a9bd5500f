//! What can go wrong, per family of operations.
//!
//! [`StoreError`] is about the database itself and can come from anywhere; the others add
//! what only their operation can answer ("no such row", "no place left").

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use emergent_types::{WorkspaceId, WorkspaceStatus};

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
    ClaimResume(WorkspaceId),
    UpdateWorkspace(WorkspaceId),
    TouchWorkspaces { count: usize },
    GetWorkspace(WorkspaceId),
    ListWorkspaces,
    WorkspacesForReconcile,
    Expired,
    DeleteWorkspace(WorkspaceId),
    CountActive,
    InsertToken(TokenId),
    FindTokenByHash,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open the database"),
            Self::Health => f.write_str("check the database"),
            Self::InsertWorkspace(id) => write!(f, "insert workspace {id}"),
            Self::ClaimResume(id) => write!(f, "claim a place for workspace {id}"),
            Self::UpdateWorkspace(id) => write!(f, "update workspace {id}"),
            Self::TouchWorkspaces { count } => write!(f, "record the use of {count} workspaces"),
            Self::GetWorkspace(id) => write!(f, "get workspace {id}"),
            Self::ListWorkspaces => f.write_str("list workspaces"),
            Self::WorkspacesForReconcile => f.write_str("list workspaces for reconcile"),
            Self::Expired => f.write_str("find expired workspaces"),
            Self::DeleteWorkspace(id) => write!(f, "delete workspace {id}"),
            Self::CountActive => f.write_str("count active workspaces"),
            Self::InsertToken(id) => write!(f, "insert token {id}"),
            Self::FindTokenByHash => f.write_str("find a token"),
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
    /// There is no room for a write.
    #[error("cannot {operation}: the disk of the database is full")]
    DiskFull {
        /// What was asked.
        operation: Operation,
    },
    /// The file is not what SQLite wrote.
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
            Self::Busy { .. } | Self::DiskFull { .. } => true,
            Self::Damaged { .. }
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
    #[error("{} is already in use{}", .path.display(), by_process(.pid))]
    AlreadyInUse {
        /// The database.
        path: PathBuf,
        /// The process that holds it, where it could be found out.
        pid: Option<u32>,
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
    /// Not a database at all.
    #[error("{} is not an SQLite database", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A database of another program.
    #[error("{} is a database of another program", .path.display())]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what SQLite wrote.
    #[error("{} is damaged: {detail}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Written by a later version of this program.
    #[error(
        "{} has schema version {found}, but this version of the program knows up to {known}: \
         use the newer version, or restore the database from a backup",
        .path.display()
    )]
    SchemaTooNew {
        /// The database.
        path: PathBuf,
        /// The schema it has.
        found: i64,
        /// The latest schema this version knows.
        known: i64,
    },
    /// A migration was applied that differs from the one this version has.
    #[error("{} was migrated by a different build: migration {version} differs", .path.display())]
    SchemaDiverged {
        /// The database.
        path: PathBuf,
        /// The migration.
        version: i64,
    },
    /// The installation's secret cannot be opened; most often, this is the wrong key.
    #[error("{}: the encryption key does not fit this database", .path.display())]
    Vault {
        /// The database.
        path: PathBuf,
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
    #[error("cannot open {}", .path.display())]
    Store {
        /// The database.
        path: PathBuf,
        /// What exactly.
        #[source]
        cause: StoreError,
    },
}

fn by_process(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
}

impl OpenError {
    /// Whether opening may succeed later without anything being repaired.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::AlreadyInUse { .. } => true,
            Self::Store { cause, .. } => cause.is_retryable(),
            Self::Inaccessible { .. }
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
            Self::AlreadyExists { .. } | Self::UnknownOwner { .. } => false,
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
            Self::AlreadyExists { .. } => false,
        }
    }
}
