//! A typed client of the REST API.
//!
//! ```no_run
//! # use emergent_client::{BashRequest, Client, ClientError, CreateWorkspace};
//! # async fn example() -> Result<(), ClientError> {
//! let client = Client::new("http://127.0.0.1:8585", "emergent_…")?;
//! let workspace = client.create(&CreateWorkspace::default()).await?;
//! let answer = client.bash(workspace.id, &BashRequest::new("echo hello")).await?;
//! assert_eq!(answer.stdout, "hello\n");
//! client.destroy(workspace.id).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Answers are read leniently: a newer server may send fields that this version does not
//! know. Failures carry the server's own code, so that a program can tell them apart.

mod alerts;
mod audit;
mod client;
mod edit;
mod error;
mod events;
mod files;
mod follow;
mod git;
mod git_hosts;
mod mcp;
mod mcp_messages;
mod metrics;
mod processes;
mod requests;
mod search;
mod snapshots;
mod sockets;
mod tokens;
mod tools;
mod warm_pool;
mod workspaces;

pub use alerts::{Alert, AlertList};
pub use audit::{AuditEntry, AuditList, ListAudit};
pub use client::Client;
pub use edit::{EditAnswer, EditMode, EditRequest};
pub use error::{ApiFailure, ClientError};
pub use events::{CommandEvent, CommandStream, FileChange, FileChangeKind, OutputFollower, WatchStream};
pub use files::{Download, Upload};
pub use follow::{EventStream, FollowEvents, ServerEvent};
pub use git::{
    GitAuthor, GitBranches, GitBrought, GitChange, GitCheckedOut, GitCloneRequest, GitCloned, GitCommit,
    GitCommitRequest, GitCommitted, GitDiff, GitDiffRequest, GitFileDiff, GitLog, GitLogRequest, GitPlace,
    GitPushed, GitRefUpdate, GitStatus,
};
pub use git_hosts::{GitHost, GitHosts};
pub use mcp::{
    DeletedMcpServer, McpAnswer, McpBridge, McpCrash, McpLog, McpLogLine, McpLogStream, McpServer,
    McpServerList, McpVolume, RegisterMcpServer, RequestedVolume,
};
pub use mcp_messages::McpPieces;
pub use metrics::{CpuMetrics, MetricsSample, SpaceMetrics, WorkspaceMetrics};
pub use processes::{OutputPage, OutputStream, Process, ProcessList, ProcessWithOutput, SignalledProcess};
pub use requests::{
    BashRequest, CreateWorkspace, ListWorkspaces, ReadRequest, RequestedLimits, WriteRequest,
};
pub use search::{GlobAnswer, GlobRequest, GrepAnswer, GrepCount, GrepMatch, GrepOutputMode, GrepRequest};
pub use snapshots::{DeletedSnapshot, Forks, RestoreWorkspace, Snapshot, SnapshotList};
pub use sockets::{
    TerminalEvent, TerminalExit, TerminalReader, TerminalRequest, TerminalWriter, TunnelReader, TunnelWriter,
};
pub use tokens::{CreateToken, NewToken, Token, TokenList};
pub use tools::{FinishedCommand, ReadAnswer, StartedProcess, StreamBytes, WriteAnswer};
pub use warm_pool::{Pool, WarmPool};
pub use workspaces::{
    Attempt, Checkout, DestroyedWorkspace, Provider, ProviderList, Workspace, WorkspaceFailure, WorkspaceList,
};
