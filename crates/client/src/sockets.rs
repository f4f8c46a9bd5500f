//! Terminals and tunnels: WebSockets.

use bytes::Bytes;
use emergent_types::WorkspaceId;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::client::{ErrorBody, ErrorContent};
use crate::workspaces::WORKSPACES;
use crate::{ApiFailure, Client, ClientError};

/// The largest message of the server's.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The largest message of ours. The server takes a mebibyte.
const PIECE_BYTES: usize = 256 << 10;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What runs on a terminal, and how large it is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TerminalRequest {
    /// Given to a shell; a login shell where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where to run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The account to run it as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Characters in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<u16>,
    /// Lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
}

/// What happens on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// Something is shown.
    Data(Bytes),
    /// The command has ended. Nothing comes after this.
    Exit(TerminalExit),
}

/// How a command on a terminal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalExit {
    /// 0 is success; 128 + signal when a signal ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<u32>,
    /// Whether the workspace ran out of memory while it ran.
    pub oom_killed: bool,
}

/// What is shown. Dropping it and the writer ends the command.
pub struct TerminalReader {
    client: Client,
    stream: SplitStream<Socket>,
}

/// What is typed.
pub struct TerminalWriter {
    client: Client,
    sink: SplitSink<Socket, Message>,
}

/// What comes from a port of the sandbox.
pub struct TunnelReader {
    client: Client,
    stream: SplitStream<Socket>,
}

/// What goes to a port of the sandbox.
pub struct TunnelWriter {
    client: Client,
    sink: SplitSink<Socket, Message>,
}

/// A word of the server's.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Control {
    Exit(TerminalExit),
    Error(ErrorContent),
    End(bool),
}

impl TerminalReader {
    /// What happens next; `None` when the terminal is closed.
    pub async fn next(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        loop {
            match next(&self.client, &mut self.stream).await? {
                None => return Ok(None),
                Some(Heard::Data(data)) => return Ok(Some(TerminalEvent::Data(data))),
                Some(Heard::Control(Control::Exit(exit))) => return Ok(Some(TerminalEvent::Exit(exit))),
                Some(Heard::Control(_)) => {}
            }
        }
    }
}

impl TerminalWriter {
    /// Types something.
    pub async fn send(&mut self, data: Bytes) -> Result<(), ClientError> {
        send(&self.client, &mut self.sink, data).await
    }

    /// Gives the terminal another size.
    pub async fn resize(&mut self, columns: u16, rows: u16) -> Result<(), ClientError> {
        let control = json!({ "resize": { "columns": columns, "rows": rows } });
        put(&self.client, &mut self.sink, Message::text(control.to_string())).await
    }

    /// Ends the command.
    pub async fn close(mut self) -> Result<(), ClientError> {
        put(&self.client, &mut self.sink, Message::Close(None)).await
    }
}

impl TunnelReader {
    /// The next bytes; `None` when the sandbox sends no more.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match next(&self.client, &mut self.stream).await? {
                None | Some(Heard::Control(Control::End(true))) => return Ok(None),
                Some(Heard::Data(data)) => return Ok(Some(data)),
                Some(Heard::Control(_)) => {}
            }
        }
    }
}

impl TunnelWriter {
    /// Sends bytes.
    pub async fn send(&mut self, data: Bytes) -> Result<(), ClientError> {
        send(&self.client, &mut self.sink, data).await
    }

    /// Says that no more is sent. The other direction goes on.
    pub async fn end(&mut self) -> Result<(), ClientError> {
        put(&self.client, &mut self.sink, Message::text(r#"{"end":true}"#)).await
    }
}

impl Client {
    /// Opens a terminal.
    pub async fn terminal(
        &self,
        id: WorkspaceId,
        request: &TerminalRequest,
    ) -> Result<(TerminalReader, TerminalWriter), ClientError> {
        let socket = self.socket(&format!("{WORKSPACES}/{id}/terminal"), request).await?;
        let (sink, stream) = socket.split();
        Ok((TerminalReader { client: self.clone(), stream }, TerminalWriter { client: self.clone(), sink }))
    }

    /// Connects to a TCP port on the loopback of the sandbox.
    pub async fn tunnel(
        &self,
        id: WorkspaceId,
        port: u16,
    ) -> Result<(TunnelReader, TunnelWriter), ClientError> {
        let socket = self.socket(&format!("{WORKSPACES}/{id}/tunnel/{port}"), &()).await?;
        let (sink, stream) = socket.split();
        Ok((TunnelReader { client: self.clone(), stream }, TunnelWriter { client: self.clone(), sink }))
    }

    async fn socket(&self, path: &str, query: &impl Serialize) -> Result<Socket, ClientError> {
        // Put together as any other request, and sent in another way.
        let get = self.unbounded(reqwest::Method::GET, path).query(query).build();
        let mut url: Url = get.map_err(|error| self.unreachable(&error))?.url().clone();
        url.set_scheme("ws").map_err(|()| self.unexpected(0, &"not an address for a WebSocket"))?;
        let request = url.as_str().into_client_request();
        let mut request = request.map_err(|error| self.refused(error))?;
        request.headers_mut().insert(AUTHORIZATION, self.authorization());
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE_BYTES));
        let (socket, _) = connect_async_with_config(request, Some(config), true)
            .await
            .map_err(|error| self.refused(error))?;
        Ok(socket)
    }

    fn refused(&self, error: Error) -> ClientError {
        let Error::Http(response) = error else { return self.unreachable(&error) };
        let status = response.status().as_u16();
        let body = response.body().as_deref().unwrap_or_default();
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => ClientError::Api(ApiFailure {
                request_id: response
                    .headers()
                    .get("x-request-id")
                    .and_then(|value| value.to_str().ok())
                    .map(str::to_owned),
                ..error.into_failure(status)
            }),
            Err(error) => self.unexpected(status, &error),
        }
    }
}

enum Heard {
    Data(Bytes),
    Control(Control),
}

async fn next(client: &Client, stream: &mut SplitStream<Socket>) -> Result<Option<Heard>, ClientError> {
    loop {
        let Some(message) = stream.next().await else { return Ok(None) };
        match message {
            Ok(Message::Binary(data)) => return Ok(Some(Heard::Data(data))),
            Ok(Message::Text(text)) => match serde_json::from_str(&text) {
                Ok(Control::Error(error)) => return Err(ClientError::Api(error.into_failure(101))),
                Ok(control) => return Ok(Some(Heard::Control(control))),
                // A newer server may say more.
                Err(_) => {}
            },
            Ok(Message::Close(_)) | Err(Error::ConnectionClosed) => return Ok(None),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Err(error) => return Err(client.unreachable(&error)),
        }
    }
}

async fn send(
    client: &Client,
    sink: &mut SplitSink<Socket, Message>,
    mut data: Bytes,
) -> Result<(), ClientError> {
    while !data.is_empty() {
        let piece = data.split_to(data.len().min(PIECE_BYTES));
        put(client, sink, Message::Binary(piece)).await?;
    }
    Ok(())
}

async fn put(
    client: &Client,
    sink: &mut SplitSink<Socket, Message>,
    message: Message,
) -> Result<(), ClientError> {
    sink.send(message).await.map_err(|error| client.unreachable(&error))
}
