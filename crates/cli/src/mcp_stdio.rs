//! `emergent mcp-stdio`: a workspace as an MCP server that is a program.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use emergent_client::Client;
use emergent_mcp_bridge::remote::{Endpoint, Pieces, RemoteEnd, RemoteOptions, serve};
use emergent_types::WorkspaceId;
use futures::StreamExt as _;
use http::{Request, Response};

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;

/// How long calls that are open may take when the client has closed its end.
const LINGER: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct McpStdio {
    /// The workspace whose tools are served
    #[arg(long, value_name = "ID")]
    workspace: WorkspaceId,
}

impl McpStdio {
    /// Runs until the client closes standard input. Standard output has nothing but the protocol.
    pub(crate) fn run(self, common: &CommonArguments) -> Result<ExitCode, Failure> {
        let Self { workspace } = self;
        connection::run(common, async |client| {
            // What is wrong from the start is said here, where a person sees it.
            client.workspace(workspace).await?;
            let options =
                RemoteOptions { settle: Duration::ZERO, linger: LINGER, ..RemoteOptions::default() };
            let endpoint = Arc::new(WorkspaceTools { client, workspace });
            match serve(endpoint, tokio::io::stdin(), tokio::io::stdout(), options).await {
                RemoteEnd::InputClosed | RemoteEnd::OutputClosed => Ok(ExitCode::SUCCESS),
                RemoteEnd::SessionLost => Ok(ExitCode::FAILURE),
            }
        })
    }
}

struct WorkspaceTools {
    client: Client,
    workspace: WorkspaceId,
}

#[async_trait::async_trait]
impl Endpoint for WorkspaceTools {
    async fn send(&self, request: Request<Bytes>) -> io::Result<Response<Pieces>> {
        let sent = self.client.send_workspace_mcp_message(self.workspace, request).await;
        let response = sent.map_err(io::Error::other)?;
        Ok(response.map(|pieces| pieces.map(|piece| piece.map_err(io::Error::other)).boxed()))
    }
}
