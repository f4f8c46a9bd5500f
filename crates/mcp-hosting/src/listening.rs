//! A program that speaks HTTP itself, in its sandbox: reached over the agent's tunnel and in no other way.
//!
//! Requests are made here from messages, so nothing of a client's own request gets to the program: no token,
//! no cookie, no address.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use emergent_agent_client::TunnelStream;
use emergent_mcp_bridge::ServerIo;
use emergent_mcp_bridge::remote::{Endpoint, Pieces, RemoteEnd, RemoteOptions, serve};
use emergent_store::McpServerRow;
use emergent_types::WorkspaceId;
use emergent_workspaces::{Handle, InUse, ToolError};
use futures::StreamExt as _;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyDataStream, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use crate::process::Process;

/// Where it is spoken to, unless the registration says otherwise.
const PATH: PathAndQuery = PathAndQuery::from_static("/mcp");
/// How often a port that does not answer yet is tried.
const LOOK: Duration = Duration::from_millis(100);
/// What is on its way between a program and its bridge.
const PIPE_BYTES: usize = 256 * 1024;

/// Where a program listens.
#[derive(Clone)]
pub(crate) struct Listening {
    workspaces: Handle,
    id: WorkspaceId,
    port: u16,
    path: PathAndQuery,
    host: HeaderValue,
}

impl Listening {
    pub(crate) fn of(workspaces: &Handle, row: &McpServerRow) -> Result<Self, String> {
        let port = row.port.ok_or("its registration names no port")?;
        let path = match &row.path {
            Some(path) => path.parse().map_err(|_| format!("{path:?} is not the path of a URL"))?,
            None => PATH,
        };
        // Programs that check it expect themselves.
        let host = HeaderValue::try_from(format!("127.0.0.1:{port}")).map_err(|error| error.to_string())?;
        Ok(Self { workspaces: workspaces.clone(), id: row.id, port, path, host })
    }

    async fn dial(&self) -> Result<InUse<TunnelStream>, ToolError> {
        self.workspaces.tool(self.id).await?.tunnel(self.port).await
    }

    /// Waits until somebody listens.
    pub(crate) async fn answers(&self, limit: Duration) -> Result<(), String> {
        let until = tokio::time::Instant::now() + limit;
        loop {
            match tokio::time::timeout_at(until, self.dial()).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) if tokio::time::Instant::now() + LOOK < until => tokio::time::sleep(LOOK).await,
                _ => {
                    let (port, seconds) = (self.port, limit.as_secs());
                    return Err(format!("nobody listened on port {port} within {seconds} s"));
                }
            }
        }
    }
}

#[async_trait::async_trait]
impl Endpoint for Listening {
    async fn send(&self, mut request: Request<Bytes>) -> io::Result<Response<Pieces>> {
        let stream = self.dial().await.map_err(io::Error::other)?;
        // A connection for each request: a tunnel costs next to nothing, and a program that closes an idle one
        // in the wrong moment loses no call.
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let connection = Connection(tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to a program in its sandbox broke");
            }
        }));
        *request.uri_mut() = Uri::from(self.path.clone());
        request.headers_mut().insert(HOST, self.host.clone());
        let response = sender.send_request(request.map(Full::new)).await.map_err(io::Error::other)?;
        Ok(response.map(|body| {
            let kept = (sender, connection);
            let pieces = BodyDataStream::new(body).map(move |piece| {
                let _kept = &kept;
                piece.map_err(io::Error::other)
            });
            pieces.boxed()
        }))
    }
}

/// What drives a connection; it ends with whoever waits for it.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Streams to a program that speaks HTTP, made anew for each session with it.
pub(crate) struct Streams {
    listening: Listening,
    lost: Arc<AtomicBool>,
}

impl Streams {
    pub(crate) fn new(listening: Listening) -> Self {
        Self { listening, lost: Arc::default() }
    }

    /// New streams. They end with the process, if that is known here.
    pub(crate) fn open(&mut self, process: Option<&Process>) -> ServerIo {
        let (stdin, input) = tokio::io::duplex(PIPE_BYTES);
        let (output, stdout) = tokio::io::duplex(PIPE_BYTES);
        let endpoint = Arc::new(self.listening.clone());
        self.lost = Arc::default();
        let lost = self.lost.clone();
        tokio::spawn(async move {
            let end = serve(endpoint, input, output, RemoteOptions::default()).await;
            lost.store(end == RemoteEnd::SessionLost, Ordering::Release);
        });
        let io = ServerIo::new(stdin, stdout);
        match process {
            Some(process) => io.with_exit(process.exit()),
            None => io,
        }
    }

    /// Whether the last ones ended because the program knows the session no more.
    pub(crate) fn were_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}
