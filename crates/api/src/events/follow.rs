//! `GET /api/v1/events`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use emergent_types::WorkspaceId;
use emergent_workspaces::{Heard, Published, Subject, Subscription};
use serde::Deserialize;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use crate::auth::Caller;
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Query, Workspaces};
use crate::state::ApiState;
use crate::streaming::{EventSource, ServerSentEvent, event, events};

/// The most types that can be asked for, and the longest name of one.
const MAX_TYPES: usize = 32;
const MAX_TYPE_BYTES: usize = 64;

/// The header with which a client that was cut off goes on.
const LAST_EVENT_ID: &str = "last-event-id";

/// Which events, and from where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Only these types, separated by commas; `workspace.*` is every type of that beginning.
    types: Option<String>,
    /// Only what is about this workspace.
    #[param(value_type = Option<String>)]
    workspace_id: Option<WorkspaceId>,
    /// From the event after this id on; from now on where not said. The header `Last-Event-ID` says the
    /// same, and what is said here goes first.
    after: Option<u64>,
    /// Whether to wait for what is still to come; `false` ends with what there is.
    follow: Option<bool>,
}

documented_errors!(Errors: PRIVATE, QUERY, &[FeatureDisabled]);

/// Follows what happens: workspaces, providers, alerts.
///
/// Events, each with an `id` that grows and JSON as its data, in which there are always `id`, `type` and
/// `at`: `workspace.state` (`workspace_id`, `from`, `to`, `provider`, `reason`; at the end `to` is
/// `destroyed`), `workspace.warning` and
/// `workspace.progress` (`workspace_id`, `message`), `provider.state` (`name`, `from`,
/// `status`, `reason`), `alert.raised` and `alert.cleared` (`alert_id`, `kind`, `severity`, `message`, `value`,
/// `threshold`), `mcp_server.health` (`workspace_id`, `name`, `health`, `restart_count`) and `mcp_server.crashed`
/// (also `reason`, `exit_code`, `signal`, `stderr`). New types may come.
///
/// The last 1,000 are kept. Whoever asks for what is gone hears `events.lost` first; whoever reads so
/// slowly that events are gone before they were sent hears it too, and that is the end of the answer. A
/// `user` token hears of its own workspaces and of nothing else.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    tag = "health",
    operation_id = "follow_events",
    params(
        Parameters,
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that was heard."),
    ),
    responses(
        (status = 200, description = "What happens.", body = ServerSentEvent, content_type = "text/event-stream"),
        Errors,
    )
)]
pub(crate) async fn follow(
    State(state): State<ApiState>,
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    headers: HeaderMap,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let after = match parameters.after {
        Some(after) => Some(after),
        None => last_event_id(&headers)?,
    };
    let types = parameters.types.as_deref().map(types).transpose()?;
    let (bus, follow) = (workspaces.events(), parameters.follow.unwrap_or(true));
    // Whoever does not wait wants what there is, and not what there will be.
    let after = after.or_else(|| (!follow).then(|| bus.before_oldest()));
    Ok(events(Following {
        subscription: bus.subscribe(after),
        filter: Filter { caller, types, workspace: parameters.workspace_id },
        follow,
        heard_any: false,
        is_over: false,
        closing: state.sockets().closing(),
    }))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    id.map(Some).ok_or_else(|| ApiError::invalid("Last-Event-ID", "is not the id of an event"))
}

fn types(text: &str) -> Result<Vec<String>, ApiError> {
    let types: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if types.len() > MAX_TYPES || types.iter().any(|name| name.len() > MAX_TYPE_BYTES) {
        let most = format!("may have {MAX_TYPES} names of {MAX_TYPE_BYTES} bytes at most");
        return Err(ApiError::invalid("types", most));
    }
    Ok(types)
}

/// What a caller may and wants to hear.
struct Filter {
    caller: Caller,
    types: Option<Vec<String>>,
    workspace: Option<WorkspaceId>,
}

impl Filter {
    fn lets_pass(&self, published: &Published) -> bool {
        let event = &published.event;
        let may_hear = match event.about {
            Subject::Installation => self.caller.sees_all(),
            Subject::Workspace { id, owner } => self.caller.may_use(id, owner),
        };
        let is_about = match (self.workspace, event.about) {
            (None, _) => true,
            (Some(wanted), Subject::Workspace { id, .. }) => wanted == id,
            (Some(_), Subject::Installation) => false,
        };
        may_hear && is_about && self.types.as_ref().is_none_or(|types| is_one_of(event.kind, types))
    }
}

fn is_one_of(kind: &str, types: &[String]) -> bool {
    types.iter().any(|name| match name.strip_suffix('*') {
        Some(beginning) => kind.starts_with(beginning),
        None => kind == name,
    })
}

struct Following {
    subscription: Subscription,
    filter: Filter,
    follow: bool,
    heard_any: bool,
    is_over: bool,
    closing: CancellationToken,
}

impl EventSource for Following {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.is_over {
                return None;
            }
            let heard = match self.follow {
                false => self.subscription.take()?,
                true => tokio::select! {
                    heard = self.subscription.next() => heard,
                    () = self.closing.cancelled() => return None,
                },
            };
            let first = !std::mem::replace(&mut self.heard_any, true);
            match heard {
                Heard::Event(published) if self.filter.lets_pass(&published) => {
                    return Some(shown(&published));
                }
                Heard::Event(_) => {}
                Heard::Lost { last } => {
                    // At the beginning it was asked for too late; later it is read too slowly.
                    self.is_over = !first;
                    let data = json!({ "id": last, "type": "events.lost", "at": now() });
                    return Some(event("events.lost", &data).id(last.to_string()));
                }
            }
        }
    }
}

fn shown(published: &Published) -> Event {
    let mut data = json!({ "id": published.id, "type": published.event.kind, "at": text(published.at) });
    if let (Value::Object(data), Value::Object(rest)) = (&mut data, &published.event.data) {
        // What every event has is not overwritten.
        for (name, value) in rest {
            data.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    event(published.event.kind, &data).id(published.id.to_string())
}

fn now() -> Option<String> {
    text(emergent_store::now())
}

fn text(at: time::OffsetDateTime) -> Option<String> {
    at.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_whole_names_or_beginnings() {
        let wanted = types(" workspace.*, provider.state,,").unwrap();
        for (kind, expect) in [
            ("workspace.state", true),
            ("workspace.warning", true),
            ("provider.state", true),
            ("provider.state.more", false),
            ("alert.raised", false),
        ] {
            assert_eq!(is_one_of(kind, &wanted), expect, "{kind}");
        }
        assert!(types(&"a,".repeat(33)).is_err() && types(&"a".repeat(65)).is_err());
    }

    #[test]
    fn a_last_event_id_is_a_number() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, text.parse().unwrap());
            last_event_id(&headers).ok()
        };
        assert_eq!(of("17"), Some(Some(17)));
        assert_eq!(of("x"), None);
        assert_eq!(last_event_id(&HeaderMap::new()).ok(), Some(None));
    }
}
