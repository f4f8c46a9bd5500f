//! The bridge over HTTP: Streamable HTTP of both eras, for whoever serves HTTP.
//!
//! ```text
//!  POST, GET, DELETE             Front                                    bridge
//!  ───────────────► gate ─► era? ─┬─ older ─► sessions ─► streams ─┐
//!   Host, Origin, Accept, size    │           (ids, replay, idle)  ├─► Peer ─► Client(s)
//!                                 └─ newer ─► headers ─► exchange ─┘
//! ```
//!
//! The happy path: [`Front::serve`] takes a whole request and gives a response whose body is whole
//! or a stream of events. What is answered soon is answered as JSON; what takes longer, or has
//! something to say meanwhile, as events.
//!
//! The older era (2025-03-26 to 2025-11-25, and 2024-11-05 spoken over Streamable HTTP): a session
//! belongs to who opened it, survives the server's process, and ends by DELETE, by being idle, or to
//! make room. A lost connection cancels nothing: the call goes on, and the client comes back for its
//! stream with `Last-Event-ID`. The newer one (2026-07-28): each request stands alone, headers must
//! say what the body says, and closing the stream cancels.
//!
//! A server that many share asks its clients nothing. One that each session has for itself asks on
//! the stream of the newest open call, or else on the stream of the GET. Clients of the newer era
//! have no sessions, so on such a server all that one principal does shares one process, which may ask by
//! `input_required` alone.
//!
//! [`Front::combined`] offers the tools of several servers as one; see [`Directory`].
//!
//! What is bounded: bodies, sessions (of all and of one principal), open requests, events and bytes
//! that wait or are kept on a stream, and the streams that are kept. A slow client misses the oldest
//! notifications of its stream, never an answer; what a server asks it then is answered for it.

mod body;
mod combined;
mod connector;
mod error;
mod exchange;
mod gate;
mod legacy;
pub(crate) mod marked;
mod merge;
mod modern;
mod observe;
mod options;
mod params;
mod peer;
mod reply;
mod resident;
mod session;
mod sessions;
mod stream;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use tokio::sync::watch;

pub use body::FrontBody;
pub use combined::{Directory, Member, SEPARATOR};
pub use connector::{Connector, OpenError, Opened, Opening, Principal, Sharing};
pub use observe::{CallOutcome, CallReport, Observer};
pub use options::FrontOptions;

use crate::era::{MODERN, named_version};
use crate::json::{Kind, Message, RawJson};
use error::Refusal;
use peer::Source;
use resident::Residents;
use sessions::Sessions;

/// One MCP endpoint. Cheap to clone; sessions end with the last clone.
#[derive(Clone)]
pub struct Front {
    inner: Arc<Inner>,
}

struct Inner {
    source: Source,
    options: Arc<FrontOptions>,
    sessions: Sessions,
    residents: Arc<Residents>,
    /// Whether no streams are served any more.
    closed: watch::Sender<bool>,
    /// Tells combined peers that the servers are others.
    changes: watch::Sender<()>,
    schemas: params::Schemas,
    /// Requests of the newer era that are open, by principal.
    open: modern::Open,
}

impl Front {
    /// The endpoint of one server. Must be called in a runtime.
    pub fn new(connector: Arc<dyn Connector>, options: FrontOptions) -> Self {
        Self::over(Source::One(connector), options)
    }

    /// An endpoint that offers the tools of several servers. Must be called in a runtime.
    pub fn combined(directory: Arc<dyn Directory>, options: FrontOptions) -> Self {
        Self::over(Source::Many(directory), options)
    }

    fn over(source: Source, options: FrontOptions) -> Self {
        let inner = Arc::new(Inner {
            source,
            sessions: Sessions::default(),
            residents: Arc::default(),
            closed: watch::Sender::new(false),
            changes: watch::Sender::new(()),
            schemas: params::Schemas::default(),
            open: modern::Open::default(),
            options: Arc::new(options),
        });
        let (watched, tick) = (Arc::downgrade(&inner), inner.options.tick());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(tick).await;
                let Some(inner) = watched.upgrade() else { return };
                inner.sessions.sweep();
                inner.residents.sweep(inner.options.idle_ttl);
            }
        });
        if let Source::Many(directory) = &inner.source
            && let Some(mut changes) = directory.changes()
        {
            let watched = Arc::downgrade(&inner);
            tokio::spawn(async move {
                while changes.changed().await.is_ok() {
                    let Some(inner) = watched.upgrade() else { return };
                    inner.changes.send_replace(());
                }
            });
        }
        Self { inner }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.inner.sessions.len()
    }

    /// Tells the clients of a combined front that there are other servers, or that they may use others.
    pub fn servers_changed(&self) {
        self.inner.changes.send_replace(());
    }

    /// Ends all sessions and streams for good, so that whoever serves HTTP can end.
    pub fn close(&self) {
        self.inner.closed.send_replace(true);
        self.inner.sessions.end_all();
        self.inner.residents.end_all();
    }

    /// Ends all sessions of a principal, such as one whose token was revoked.
    pub fn end_sessions_of(&self, principal: &Principal) {
        self.inner.sessions.end_of(principal);
        self.inner.residents.end_of(principal);
    }

    /// Answers a request. Who asks must be known already: nothing here looks at credentials.
    pub async fn serve(&self, principal: Principal, request: Request<Bytes>) -> Response<FrontBody> {
        let (head, body) = request.into_parts();
        match self.answer(principal, &head.method, &head.headers, body).await {
            Ok(response) => response,
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn answer(
        &self,
        principal: Principal,
        method: &Method,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<FrontBody>, Refusal> {
        let inner = &self.inner;
        if *inner.closed.borrow() {
            return Err(Refusal::closed());
        }
        gate::source(headers, &inner.options)?;
        match *method {
            Method::POST => {}
            // The newer era has nothing but POST; a session header means nothing to it.
            _ if gate::version(headers)? == Some(MODERN) => return Err(Refusal::method("POST")),
            Method::GET => return legacy::get(inner, &principal, headers),
            Method::DELETE => return legacy::delete(inner, &principal, headers),
            _ => return Err(Refusal::method("GET, POST, DELETE")),
        }
        gate::post(headers, &body, &inner.options)?;
        let text = RawJson::parse(body).map_err(Refusal::malformed)?;
        if gate::version(headers)? == Some(MODERN) {
            return modern::post(inner, principal, headers, text).await;
        }
        if text.is_batch() {
            return legacy::batch(inner, &principal, headers, text).await;
        }
        let message = Message::read_strictly(text.clone())
            .map_err(|malformed| Refusal::malformed(malformed).about(&text))?;
        if is_modern(&message).map_err(|malformed| Refusal::malformed(malformed).about(&text))? {
            return modern::post(inner, principal, headers, text).await;
        }
        legacy::post(inner, principal, headers, message).await
    }
}

/// Whether a message is of the newer era, whatever its headers say.
fn is_modern(message: &Message) -> Result<bool, crate::Malformed> {
    let Kind::Request { method, .. } = &message.kind else { return Ok(false) };
    Ok(matches!(method.as_str(), "server/discover" | "subscriptions/listen")
        || named_version(message)?.is_some())
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").field("sessions", &self.sessions()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sessions.end_all();
    }
}
