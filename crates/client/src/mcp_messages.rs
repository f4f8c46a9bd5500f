//! Messages of MCP clients, to a workspace.

use bytes::Bytes;
use emergent_types::WorkspaceId;
use futures::stream::{BoxStream, StreamExt as _};
use http::{Request, Response};

use crate::{Client, ClientError};

/// What is answered to a message, as it comes.
pub type McpPieces = BoxStream<'static, Result<Bytes, ClientError>>;

impl Client {
    /// Sends a message of an MCP client to a workspace. What proves who asks is added here. A refusal is an
    /// answer too: it is the MCP client that understands it.
    pub async fn send_workspace_mcp_message(
        &self,
        id: WorkspaceId,
        request: Request<Bytes>,
    ) -> Result<Response<McpPieces>, ClientError> {
        let (head, body) = request.into_parts();
        let path = format!("/api/v1/agent/workspaces/{id}/mcp");
        let request = self.unbounded(head.method, &path).headers(head.headers).body(body);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let mut answer = Response::new(());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        let client = self.clone();
        let pieces =
            response.bytes_stream().map(move |piece| piece.map_err(|error| client.unreachable(&error)));
        Ok(answer.map(|()| pieces.boxed()))
    }
}
