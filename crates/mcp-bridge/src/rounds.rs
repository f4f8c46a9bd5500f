//! Input that a server of the newer era asks for, got from a client of the older one.
//!
//! The server answers that it needs input; the client is asked as the older era asks, and the
//! request is made again with what it said.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::error::CallError;
use crate::handshake::local_error;
use crate::hub::Patience;
use crate::json::{Kind, Malformed, Message, Outcome, RawJson, Splice, pick, quoted, span_of, text_of};
use crate::mailbox::Incoming;
use crate::session::{Asked, CallState, Session, cancelled_notice};

/// How often a server may ask for the sake of one call.
pub(crate) const MOST: usize = 10;

/// What a server needs to know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Required {
    /// By the server's own names: method and params.
    requests: BTreeMap<String, (String, String)>,
    /// What the server wants back as it is.
    state: Option<String>,
}

/// How a call goes on.
pub(crate) enum Step {
    /// With this request.
    Again(Message),
    /// Not at all; this is its answer.
    Refused(RawJson),
}

/// What an answer asks for; `None` if it is complete.
pub(crate) fn required(answer: &RawJson) -> Option<Required> {
    let message = Message::read(answer.clone()).ok()?;
    let Kind::Response { outcome: Outcome::Result(result), .. } = &message.kind else { return None };
    let result = message.at(result);
    let [kind, requests, state] = pick(result, ["resultType", "inputRequests", "requestState"]).ok()?;
    if kind.and_then(text_of).as_deref() != Some("input_required") {
        return None;
    }
    let named: BTreeMap<String, &RawValue> = serde_json::from_str(requests.unwrap_or("{}")).ok()?;
    let mut requests = BTreeMap::new();
    for (name, request) in named {
        let [method, params] = pick(request.get(), ["method", "params"]).ok()?;
        requests.insert(name, (text_of(method?)?, params.unwrap_or("{}").to_owned()));
    }
    Some(Required { requests, state: state.map(str::to_owned) })
}

/// Asks the client.
pub(crate) async fn ask(
    session: &Session,
    call: &CallState,
    original: &Message,
    required: Required,
    patience: &Patience,
) -> Result<Step, CallError> {
    let Kind::Request { id, .. } = &original.kind else {
        return Err(Malformed::Shape("the message is no request").into());
    };
    let mut inputs = Vec::new();
    for (name, (method, params)) in required.requests {
        let answer = ask_one(session, call, &method, &params, patience).await?;
        match answer.as_ref().map(|answer| (answer, &answer.kind)) {
            Some((answer, Kind::Response { outcome: Outcome::Result(result), .. })) => {
                inputs.push(format!("{}:{}", quoted(&name), answer.at(result)));
            }
            _ => {
                let text = format!("the client did not answer {method}");
                return Ok(Step::Refused(local_error(original.at(id), -32603, &text)));
            }
        }
    }
    Ok(Step::Again(again(original, &inputs, required.state.as_deref())?))
}

async fn ask_one(
    session: &Session,
    call: &CallState,
    method: &str,
    params: &str,
    patience: &Patience,
) -> Result<Option<Message>, CallError> {
    let (asker, answered) = oneshot::channel();
    let Some(id) = session.ask(Asked::Round(asker)) else { return Ok(None) };
    let message = RawJson::known(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#,
        quoted(method)
    ));
    let question = Question { session, call, id };
    if !session.mailbox.push(Incoming::Request { about: Some(call.number), message }) {
        session.answered(id);
        return Ok(None);
    }
    let wait = async {
        tokio::select! {
            answer = answered => Ok(answer.ok()),
            () = call.cancelled() => Err(CallError::Cancelled),
        }
    };
    let answer = patience.within(wait).await;
    drop(question);
    answer?
}

/// A question that is taken back if nobody waits for its answer any more.
struct Question<'a> {
    session: &'a Session,
    call: &'a CallState,
    id: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if self.session.answered(self.id).is_some() {
            let message = cancelled_notice(&self.id.to_string(), "the call is over");
            self.session.mailbox.push(Incoming::Notification { about: Some(self.call.number), message });
        }
    }
}

/// The original request with what the client said, in front of what it had.
fn again(original: &Message, inputs: &[String], state: Option<&str>) -> Result<Message, Malformed> {
    let mut members = vec![format!(r#""inputResponses":{{{}}}"#, inputs.join(","))];
    members.extend(state.map(|state| format!(r#""requestState":{state}"#)));
    let members = members.join(",");
    let whole = original.text.as_str();
    let mut splice = Splice::new(whole);
    match original.params() {
        Some(params) => {
            let comma = if params[1..].trim_start().starts_with('}') { "" } else { "," };
            splice.insert(span_of(whole, params).start + 1, format!("{members}{comma}"));
        }
        None => {
            let brace = whole.find('{').map_or(0, |brace| brace + 1);
            splice.insert(brace, format!(r#""params":{{{members}}},"#));
        }
    }
    Message::read(splice.finish())
}
