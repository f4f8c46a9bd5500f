use std::sync::Arc;

use crate::command::Task;
use crate::era::{Era, Server};
use crate::error::CallError;
use crate::hub::{Departure, Job, Patience, Pending, Shared};
use crate::json::{IdKey, Kind, Malformed, Message, RawJson};
use crate::rounds::{self, Step};
use crate::session::{CallNumber, CallState, Session};
use crate::translate::{for_modern_client, for_modern_server};

/// A request that was sent.
///
/// Dropping it before its answer cancels it if it is of the newer era, where a closed stream means
/// that. A request of the older era goes on, since there a lost connection means nothing.
#[derive(Debug)]
pub struct Call {
    shared: Arc<Shared>,
    session: Arc<Session>,
    state: Arc<CallState>,
    id: IdKey,
    message: Message,
    speaks: Era,
    patience: Patience,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Not handed over.
    Open,
    Answered(RawJson),
    Waiting {
        pending: Pending,
        listens: bool,
        server: Era,
    },
    Over,
}

impl Call {
    pub(crate) fn open(
        shared: Arc<Shared>,
        session: Arc<Session>,
        message: Message,
        speaks: Era,
        patience: Patience,
    ) -> Result<Self, CallError> {
        let id = match &message.kind {
            Kind::Request { id, .. } => IdKey::of(message.at(id)),
            _ => None,
        };
        let id = id.ok_or(Malformed::Shape("the message is no request"))?;
        let state = CallState::new(CallNumber(shared.hub.number()));
        session.open(id.clone(), state.clone());
        Ok(Self { shared, session, state, id, message, speaks, patience, stage: Stage::Open })
    }

    /// What messages about this call are marked with.
    pub fn number(&self) -> CallNumber {
        self.state.number
    }

    /// Takes the request back. Its answer is [`CallError::Cancelled`].
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// The answer: a whole message with the client's own id. A listen request has none until it ends.
    pub async fn answer(mut self) -> Result<RawJson, CallError> {
        let mut asked = 0;
        loop {
            let (answered, listens, server) = match &mut self.stage {
                Stage::Answered(answer) => {
                    let answer = answer.clone();
                    self.stage = Stage::Over;
                    return Ok(answer);
                }
                Stage::Waiting { pending, listens, server } => (&mut pending.answered, *listens, *server),
                Stage::Open | Stage::Over => return Err(CallError::Cancelled),
            };
            let state = self.state.clone();
            let wait = async {
                tokio::select! {
                    // An answer that is there already counts, cancelled or not.
                    biased;
                    answer = answered => Ok(answer),
                    () = state.cancelled() => Err(CallError::Cancelled),
                }
            };
            let waited =
                if listens { Ok(wait.await) } else { self.patience.within_extended(&self.state, wait).await };
            self.stage = Stage::Over;
            let answer = waited??.map_err(|_| self.shared.ended(true))??;
            match (self.speaks, server) {
                (Era::Modern, Era::Legacy) => {
                    return Ok(for_modern_client(self.offered(answer), self.method()));
                }
                (Era::Legacy, Era::Modern) => {}
                _ => return Ok(self.offered(answer)),
            }
            let Some(required) = rounds::required(&answer) else { return Ok(self.offered(answer)) };
            asked += 1;
            if asked > rounds::MOST {
                return Err(CallError::TooManyRounds(rounds::MOST));
            }
            self.patience = Patience::new(self.patience.timeout);
            let step =
                rounds::ask(&self.session, &self.state, &self.message, required, &self.patience).await?;
            match step {
                Step::Refused(answer) => return Ok(answer),
                Step::Again(message) => {
                    self.patience = Patience::new(self.patience.timeout);
                    let server = self.shared.ready(&self.patience).await?;
                    self.hand_over(message, Task::Forward, &server).await?;
                }
            }
        }
    }

    /// What takes the call back while somebody else waits for its answer.
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller { shared: self.shared.clone(), state: self.state.clone() }
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn answered(&mut self, answer: RawJson) {
        self.stage = Stage::Answered(answer);
    }

    pub(crate) async fn submit(&mut self, task: Task, server: &Server) -> Result<(), CallError> {
        self.hand_over(self.message.clone(), task, server).await
    }

    async fn hand_over(&mut self, message: Message, task: Task, server: &Server) -> Result<(), CallError> {
        let message = match (self.speaks, server.era) {
            (Era::Legacy, Era::Modern) => for_modern_server(&message, Some(&self.session))?,
            _ => message,
        };
        let listens = matches!(task, Task::Listen(_));
        let job = Job {
            message,
            task,
            state: self.state.clone(),
            session: Some(self.session.clone()),
            patience: (!listens).then_some(self.patience),
            era: server.era,
        };
        let pending = self.shared.submit(job).await?;
        self.stage = Stage::Waiting { pending, listens, server: server.era };
        Ok(())
    }

    /// A list of tools has those that are offered.
    fn offered(&self, answer: RawJson) -> RawJson {
        if self.method() == "tools/list" { self.shared.hub.rules().filter(answer) } else { answer }
    }

    fn method(&self) -> &str {
        match &self.message.kind {
            Kind::Request { method, .. } => method,
            _ => "",
        }
    }
}

/// Takes a call back.
#[derive(Debug)]
pub(crate) struct Canceller {
    shared: Arc<Shared>,
    state: Arc<CallState>,
}

impl Canceller {
    pub(crate) fn cancel(&self) {
        self.state.cancel();
        self.shared.hub.departures.push(Departure::Call(self.state.number));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.session.close(&self.id, self.state.number);
        if matches!(self.stage, Stage::Waiting { .. }) && self.speaks == Era::Modern {
            self.cancel();
        }
    }
}
