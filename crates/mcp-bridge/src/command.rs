use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::era::Era;
use crate::error::CallError;
use crate::hub::Patience;
use crate::json::{Message, RawJson, Span};
use crate::session::{CallState, Session};

/// What a call ends with: the answer as the client gets it, or why there is none.
pub(crate) type Answer = Result<RawJson, CallError>;

/// A call's places among the open ones. The caller and the flight share them, so a place is free
/// again when the server owes no answer and nobody is left to take one.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not read")]
pub(crate) struct Hold(pub(crate) Option<OwnedSemaphorePermit>, pub(crate) Option<OwnedSemaphorePermit>);

/// A line for the server, and the space it takes until it is written.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) text: RawJson,
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) space: Option<OwnedSemaphorePermit>,
}

/// What clients ask of the task that owns the process.
#[derive(Debug)]
pub(crate) enum Command {
    Call(Submission),
    /// A line without an answer. One that is meant for an earlier process is dropped.
    Write {
        frame: Frame,
        epoch: Option<u64>,
    },
}

/// A call.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) message: Message,
    pub(crate) token: Option<Span>,
    pub(crate) task: Task,
    pub(crate) state: Arc<CallState>,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) patience: Option<Patience>,
    pub(crate) era: Era,
    pub(crate) answer: oneshot::Sender<Answer>,
    pub(crate) hold: Option<Arc<Hold>>,
    pub(crate) space: Option<OwnedSemaphorePermit>,
}

/// What a call is to the bridge.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// The server's business.
    Forward,
    /// The server's business, and not to wait for a turn.
    Probe,
    /// `resources/subscribe`.
    Subscribe(String),
    /// `resources/unsubscribe`.
    Unsubscribe(String),
    /// `logging/setLevel`.
    Level(crate::actor::Level),
    /// `subscriptions/listen`.
    Listen(Filter),
}

/// What a listen request listens to.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Filter {
    pub(crate) tools_list_changed: bool,
    pub(crate) prompts_list_changed: bool,
    pub(crate) resources_list_changed: bool,
    pub(crate) resource_subscriptions: Vec<String>,
}
