//! WebSockets: connections that become byte streams.
//!
//! Each has a place among the few that may be open, hears of the server's end, and is found
//! out when its client went away without a word.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, ws::Utf8Bytes};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Caller;
use crate::errors::{ApiError, ErrorCode};
use crate::limits::{SocketPlace, SocketPlaces};

/// The largest message of a client.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
const TOO_LONG: &str = "a message may have 1048576 bytes at most";

/// How often a client is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long it may be silent.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// How long the last message may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// The WebSockets of this server, and its end, which others that go on for long hear of too.
#[derive(Clone)]
pub(crate) struct Sockets {
    places: SocketPlaces,
    open: TaskTracker,
    closing: CancellationToken,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self { places: SocketPlaces::default(), open: TaskTracker::new(), closing: CancellationToken::new() }
    }

    /// Tells when the server is going down.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Tells everybody that the server is going down.
    pub(crate) fn begin_close(&self) {
        self.closing.cancel();
        self.open.close();
    }

    /// Waits until all are closed.
    pub(crate) async fn closed(&self) {
        self.open.wait().await;
    }

    /// A place for a WebSocket. To be taken before anything is begun for it: whoever is refused has
    /// run nothing.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<SocketPlace, ApiError> {
        self.places.enter(caller)
    }

    /// Answers a request with a WebSocket and serves it until it ends, or the server does.
    pub(crate) fn serve<F>(
        &self,
        request: SocketRequest,
        place: SocketPlace,
        serve: impl FnOnce(SocketReader, SocketWriter) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let (open, closing) = (self.open.clone(), self.closing.clone());
        let upgrade = request.0.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES);
        upgrade.on_upgrade(move |socket| {
            open.clone().track_future(async move {
                let (sink, stream) = socket.split();
                let writer = SocketWriter { sink, closing };
                serve(SocketReader { stream }, writer).await;
                drop(place);
            })
        })
    }
}

/// A request that asks for a WebSocket.
pub(crate) struct SocketRequest(WebSocketUpgrade);

impl<S: Send + Sync> FromRequestParts<S> for SocketRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        WebSocketUpgrade::from_request_parts(parts, state).await.map(Self).map_err(|refused| {
            ApiError::new(
                ErrorCode::UpgradeRequired,
                format!("this is a WebSocket, and the request does not ask for one: {refused}"),
            )
        })
    }
}

/// Why a WebSocket is over: the code and the text of its last message.
pub(crate) type End = (u16, &'static str);

/// What a client sent.
pub(crate) enum Heard {
    /// Bytes.
    Data(Bytes),
    /// A word about the stream.
    Control(Utf8Bytes),
}

/// What a client sends.
pub(crate) struct SocketReader {
    stream: SplitStream<WebSocket>,
}

impl SocketReader {
    /// The next message, or why there is none: the client has gone, has said so, was silent for
    /// too long, or sent what is no message.
    pub(crate) async fn next(&mut self) -> Result<Heard, End> {
        loop {
            let next = tokio::time::timeout(SILENCE_LIMIT, self.stream.next()).await;
            match next.map_err(|_| (1008, "nothing was heard of the client for too long"))? {
                Some(Ok(Message::Binary(data))) => return Ok(Heard::Data(data)),
                Some(Ok(Message::Text(text))) => return Ok(Heard::Control(text)),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Err((1000, "")),
                Some(Err(error)) => return Err(fault(error)),
            }
        }
    }
}

/// What is wrong with what a client sent, in the codes of RFC 6455.
fn fault(error: axum::Error) -> End {
    let inner = error.into_inner();
    match inner.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => (1009, TOO_LONG),
        Some(tungstenite::Error::Utf8(_)) => (1007, "a text message must be UTF-8"),
        // A client that goes without a word is not at fault.
        Some(tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => (1000, ""),
        Some(tungstenite::Error::Protocol(_)) => (1002, "this is not a WebSocket's frame"),
        _ => (1000, ""),
    }
}

/// What is sent to a client.
pub(crate) struct SocketWriter {
    sink: SplitSink<WebSocket, Message>,
    closing: CancellationToken,
}

impl SocketWriter {
    /// Waits for `next`, and asks the client meanwhile whether it is there. `None` when it is
    /// not, or when the server is going down.
    pub(crate) async fn while_waiting<T>(&mut self, next: impl Future<Output = T>) -> Option<T> {
        let mut next = std::pin::pin!(next);
        let closing = self.closing.clone();
        loop {
            tokio::select! {
                result = &mut next => return Some(result),
                () = closing.cancelled() => return None,
                () = tokio::time::sleep(PING_INTERVAL) => {
                    self.send(Message::Ping(Bytes::new())).await.ok()?;
                }
            }
        }
    }

    /// Sends bytes.
    pub(crate) async fn data(&mut self, data: Bytes) -> Result<(), Gone> {
        self.send(Message::Binary(data)).await
    }

    /// Sends a word about the stream.
    pub(crate) async fn control(&mut self, control: &serde_json::Value) -> Result<(), Gone> {
        self.send(Message::text(control.to_string())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        let closing = self.closing.clone();
        tokio::select! {
            sent = self.sink.send(message) => sent.map_err(|_| Gone),
            () = closing.cancelled() => Err(Gone),
        }
    }

    /// The last message, with the reason.
    pub(crate) async fn close(mut self, code: u16, reason: &'static str) {
        let (code, reason) =
            if self.closing.is_cancelled() { (1001, "the server is shutting down") } else { (code, reason) };
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        // Whether or not the client hears it.
        let _ = tokio::time::timeout(CLOSE_LIMIT, async {
            let _ = self.sink.send(Message::Close(Some(frame))).await;
            let _ = self.sink.close().await;
        })
        .await;
    }
}

/// The client is not there any more.
#[derive(Debug)]
pub(crate) struct Gone;
