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

mod client;
mod error;
mod processes;
mod requests;
mod tools;
mod workspaces;

pub use client::Client;
pub use error::{ApiFailure, ClientError};
pub use processes::{OutputPage, Process, ProcessList, ProcessWithOutput, SignalledProcess};
pub use requests::{
    BashRequest, CreateWorkspace, ListWorkspaces, ReadRequest, RequestedLimits, WriteRequest,
};
pub use tools::{FinishedCommand, ReadAnswer, StartedProcess, StreamBytes, WriteAnswer};
pub use workspaces::{
    Attempt, Checkout, DestroyedWorkspace, Provider, ProviderList, Workspace, WorkspaceFailure, WorkspaceList,
};
