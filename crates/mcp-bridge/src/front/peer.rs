//! What a session or a request talks to: one server, or several as one.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use tokio::time::Instant;

use super::Inner;
use super::combined::{Combined, Directory};
use super::connector::{Connector, OpenError, Opened, Opening, Principal};
use super::error::Refusal;
use super::resident::Resident;
use crate::call::Canceller;
use crate::error::{CallError, ConnectError};
use crate::json::RawJson;
use crate::mailbox::Incoming;
use crate::session::CallNumber;
use crate::{Client, Declaration, Handle};

/// How long a process that has to leave may take to do so, and how often it is looked.
const LEAVING: Duration = Duration::from_secs(7);
const LOOK: Duration = Duration::from_millis(50);

/// A call among those of a peer: the server's place, and its number there.
pub(super) type Tag = (usize, CallNumber);

/// Where peers come from.
pub(super) enum Source {
    One(Arc<dyn Connector>),
    Many(Arc<dyn Directory>),
}

/// Somebody to talk to, for one session or one request.
pub(super) enum Peer {
    One {
        client: Client,
        handle: Handle,
        #[expect(dead_code, reason = "held, not read")]
        held: Held,
    },
    Many(Arc<Combined>),
}

/// What keeps the process of a peer.
#[expect(dead_code, reason = "held, not read")]
pub(super) enum Held {
    Session(Option<Box<dyn Any + Send + Sync>>),
    Resident(Arc<Resident>),
}

/// A request that was sent, or is just being sent.
pub(super) struct Begun {
    pub(super) answer: BoxFuture<'static, Result<RawJson, CallError>>,
    pub(super) cancel: Option<Canceller>,
}

/// A message for the client that is no answer.
pub(super) struct Arrived {
    /// The call it belongs to.
    pub(super) about: Option<Tag>,
    /// Whether it is a request.
    pub(super) asks: bool,
    pub(super) message: RawJson,
}

impl Arrived {
    pub(super) fn new(server: usize, incoming: Incoming) -> Self {
        let asks = matches!(incoming, Incoming::Request { .. });
        let (Incoming::Notification { about, message } | Incoming::Request { about, message }) = incoming;
        Self { about: about.map(|number| (server, number)), asks, message }
    }
}

impl Source {
    /// For a session.
    pub(super) async fn session(
        inner: &Inner,
        principal: &Principal,
        declaration: Declaration,
    ) -> Result<Peer, OpenError> {
        let connector = match &inner.source {
            Self::One(connector) => connector,
            Self::Many(directory) => return Ok(Peer::Many(Combined::new(inner, directory, principal))),
        };
        let opening = || Opening { principal: principal.clone(), declaration: Some(declaration.clone()) };
        let opened = making_room(inner, principal, || connector.open(opening())).await;
        let Opened { handle, guard } = opened?;
        let client = handle.connect().map_err(|error| OpenError::Unavailable(error.to_string()))?;
        Ok(Peer::One { client, handle, held: Held::Session(guard) })
    }

    /// For a request that stands alone.
    pub(super) async fn request(inner: &Inner, principal: &Principal) -> Result<Peer, Refusal> {
        let connector = match &inner.source {
            Self::One(connector) => connector,
            Self::Many(directory) => return Ok(Peer::Many(Combined::new(inner, directory, principal))),
        };
        let open = || inner.residents.open(principal, "", connector.as_ref()).boxed();
        let (handle, held) = making_room(inner, principal, open).await?;
        Ok(Peer::One { client: handle.connect()?, handle, held })
    }
}

/// Opens a way. Where no more processes may be started, one makes room that nobody uses at the moment: most
/// clients never say that they leave.
async fn making_room<'a, T>(
    inner: &Inner,
    principal: &Principal,
    open: impl Fn() -> BoxFuture<'a, Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let opened = open().await;
    if !matches!(opened, Err(OpenError::TooMany)) {
        return opened;
    }
    let options = &inner.options;
    let is_one_leaving =
        inner.sessions.end_idlest(principal, options) || inner.residents.sweep(options.min_idle_to_evict);
    if !is_one_leaving {
        return opened;
    }
    let until = Instant::now() + LEAVING;
    loop {
        let opened = open().await;
        if !matches!(opened, Err(OpenError::TooMany)) || Instant::now() >= until {
            return opened;
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Peer {
    /// Sends a request. `note` learns of the call before anything is said about it.
    pub(super) async fn begin(
        &self,
        message: RawJson,
        timeout: Option<Duration>,
        note: impl Fn(Tag) + Send,
    ) -> Result<Begun, CallError> {
        match self {
            Self::One { client, .. } => {
                let call = client.begin_noting(message, timeout, |number| note((0, number))).await?;
                let cancel = Some(call.canceller());
                Ok(Begun { answer: Box::pin(call.answer()), cancel })
            }
            Self::Many(combined) => combined.begin(message, timeout, note).await,
        }
    }

    pub(super) async fn notify(&self, message: RawJson) -> Result<(), CallError> {
        match self {
            Self::One { client, .. } => client.notify(message).await,
            Self::Many(combined) => combined.notify(message).await,
        }
    }

    pub(super) async fn respond(&self, message: RawJson) -> Result<(), CallError> {
        match self {
            Self::One { client, .. } => client.respond(message).await,
            // Several servers as one ask nothing.
            Self::Many(_) => Ok(()),
        }
    }

    /// What waits for the client.
    pub(super) fn drain(&self) -> Vec<Arrived> {
        match self {
            Self::One { client, .. } => std::iter::from_fn(|| client.take_incoming())
                .map(|incoming| Arrived::new(0, incoming))
                .collect(),
            Self::Many(combined) => combined.drain(),
        }
    }

    /// Waits until there is something to drain.
    pub(super) async fn news(&self) {
        match self {
            Self::One { client, .. } => client.news().await,
            Self::Many(combined) => combined.news().await,
        }
    }

    /// Whether there will never be an answer any more.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::One { handle, .. } => handle.is_over(),
            Self::Many(_) => false,
        }
    }
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        super::connector::OpenError::Unavailable(error.to_string()).into()
    }
}
