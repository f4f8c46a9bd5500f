//! A server that speaks Streamable HTTP, as if it were a process with standard streams.
//!
//! ```text
//!   lines ─► one POST a message ──► JSON, or events ──► lines
//!            one GET (older era) ─► what it says unasked ──┘
//! ```
//!
//! The happy path: [`serve`] takes a line, sends it, and writes what comes back as lines. Requests are sent
//! beside one another; what has no answer is sent in turn. The session of the older era is kept here, and so
//! are the headers that the newer one wants. Nothing waits for the end of a stream: each event is a line at once.
//!
//! The failures: a request that cannot be sent or is refused is answered with an error. A stream of the older
//! era that breaks is taken up again where it broke. A session that the server has forgotten is the end of all
//! of it, as the end of a process is.
//!
//! What is bounded: messages, events, open requests, and how long anything but a request may take. How long a
//! request may take, whoever sends it decides: `notifications/cancelled` ends it here as well.

mod body;
mod events;
mod exchange;
mod headers;
mod listen;
mod session;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use crate::framing::{Line, LineReader};
use crate::handshake::local_error;
use crate::json::{IdKey, Kind, Message, RawJson};
use crate::link::one_line;
use crate::session::lock;
use headers::Marks;
use session::HttpSession;

/// Requests that may be open at once.
const MOST_OPEN: usize = 2048;
/// How long what has no answer may take to be taken.
const NOTICE_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of a session may take to be taken.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// What a server answers: the pieces of a body, as they come.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Where a server is, and how it is reached.
#[async_trait::async_trait]
pub trait Endpoint: Send + Sync + 'static {
    /// Sends a request, and gives the answer as soon as its head is there. Address, host and whatever proves who
    /// asks are the endpoint's to add. Dropping the body closes the connection.
    async fn send(&self, request: Request<Bytes>) -> io::Result<Response<Pieces>>;
}

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// The longest message in either direction, in bytes.
    pub max_message_bytes: usize,
    /// How long a call whose connection broke waits for a better reason than that before it fails.
    pub settle: Duration,
    /// How long open requests are waited for when the input ends.
    pub linger: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self { max_message_bytes: 16 << 20, settle: Duration::from_millis(500), linger: Duration::ZERO }
    }
}

/// Why nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteEnd {
    /// Whoever speaks to the server is gone.
    InputClosed,
    /// Nobody listens.
    OutputClosed,
    /// The server does not know the session any more.
    SessionLost,
}

/// What all requests share.
struct Remote {
    endpoint: Arc<dyn Endpoint>,
    options: RemoteOptions,
    lines: mpsc::Sender<RawJson>,
    session: Mutex<HttpSession>,
    marks: Marks,
    open: Mutex<HashMap<IdKey, AbortHandle>>,
    lost: Notify,
}

/// Speaks to a server until one side ends.
pub async fn serve(
    endpoint: Arc<dyn Endpoint>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    options: RemoteOptions,
) -> RemoteEnd {
    // Few: each may be as long as a message may be.
    let (lines, written) = mpsc::channel(4);
    let mut reader = LineReader::new(input, options.max_message_bytes);
    let remote = Arc::new(Remote {
        endpoint,
        options,
        lines,
        session: Mutex::default(),
        marks: Marks::default(),
        open: Mutex::default(),
        lost: Notify::new(),
    });
    let mut tasks = JoinSet::new();
    let mut writer = JoinSet::new();
    writer.spawn(write(output, written));
    let end = loop {
        tokio::select! {
            line = reader.next() => match line {
                Ok(Some(Line::Text(line))) => remote.take(line, &mut tasks).await,
                Ok(Some(Line::TooLong { bytes, .. })) => {
                    tracing::warn!(bytes, "dropped a message that is longer than allowed");
                }
                Ok(None) | Err(_) => break RemoteEnd::InputClosed,
            },
            () = remote.lost.notified() => break RemoteEnd::SessionLost,
            _ = writer.join_next() => return RemoteEnd::OutputClosed,
            // What is over is forgotten.
            Some(_) = tasks.join_next() => {}
        }
    };
    if end == RemoteEnd::InputClosed {
        remote.answered(remote.options.linger).await;
        let farewell = tokio::time::timeout(FAREWELL_LIMIT, remote.leave()).await;
        if farewell.is_err() {
            tracing::debug!("the server did not take the end of its session in time");
        }
    }
    tasks.shutdown().await;
    drop(remote);
    // What is queued is still written.
    writer.join_next().await;
    end
}

impl Remote {
    /// Sends a message. Only one with an answer is not waited for.
    async fn take(self: &Arc<Self>, line: Vec<u8>, tasks: &mut JoinSet<()>) {
        let text = RawJson::known(String::from_utf8_lossy(&line).into_owned());
        let message = match Message::read(text.clone()) {
            Ok(message) => message,
            Err(malformed) => {
                self.say(local_error("null", malformed.code(), &malformed.to_string())).await;
                return;
            }
        };
        match &message.kind {
            Kind::Request { id, .. } => self.ask(message.at(id).to_owned(), message, tasks).await,
            Kind::Notification { method, .. } if method == "notifications/cancelled" => {
                self.cancel(&message).await;
            }
            Kind::Notification { method, .. } => {
                let begins = method == "notifications/initialized";
                self.tell(&message).await;
                if begins && lock(&self.session).is_open() {
                    tasks.spawn(listen::listen(self.clone()));
                }
            }
            Kind::Response { .. } => self.tell(&message).await,
        }
    }

    async fn ask(self: &Arc<Self>, id: String, message: Message, tasks: &mut JoinSet<()>) {
        let Some(key) = IdKey::of(&id) else { return };
        if lock(&self.open).len() >= MOST_OPEN {
            self.say(local_error(&id, -32000, "too many requests are open")).await;
            return;
        }
        let (remote, of) = (self.clone(), key.clone());
        // Locked, so that it cannot be over before it is noted.
        let mut open = lock(&self.open);
        let task = tasks.spawn(async move {
            if let Err(reason) = exchange::exchange(&remote, &message, &of).await {
                tokio::time::sleep(remote.options.settle).await;
                remote.say(local_error(&id, -32000, &reason)).await;
            }
            lock(&remote.open).remove(&of);
        });
        open.insert(key, task);
    }

    /// Takes a request back: in the newer era by closing its stream, in the older one by saying so.
    async fn cancel(&self, message: &Message) {
        if lock(&self.session).is_open() {
            self.tell(message).await;
        }
        let key = message.param("requestId").and_then(IdKey::of);
        let task = key.and_then(|key| lock(&self.open).remove(&key));
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Sends what has no answer.
    async fn tell(&self, message: &Message) {
        let sent = async {
            let request = headers::post(self, message).await;
            self.endpoint.send(request).await
        };
        match tokio::time::timeout(NOTICE_LIMIT, sent).await {
            Ok(Ok(response)) if response.status().is_success() => {}
            Ok(Ok(response)) => tracing::debug!(status = %response.status(), "a notification was refused"),
            Ok(Err(error)) => tracing::debug!(%error, "a notification was not sent"),
            Err(_) => tracing::debug!("a notification was not taken in time"),
        }
    }

    async fn say(&self, message: RawJson) {
        // Nobody listens when the output is closed, which ends everything.
        let _closed = self.lines.send(message).await;
    }

    /// Waits for the answers to open requests, for so long.
    async fn answered(&self, limit: Duration) {
        let until = tokio::time::Instant::now() + limit;
        while !lock(&self.open).is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the session of the older era.
    async fn leave(&self) {
        let has_one = lock(&self.session).id.is_some();
        if has_one
            && let Err(error) = self.endpoint.send(headers::without_body(self, &http::Method::DELETE)).await
        {
            tracing::debug!(%error, "the session was not ended");
        }
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<RawJson>) {
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&one_line(line.as_str())).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}
