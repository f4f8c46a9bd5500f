//! `GET /api/v1/mcp/servers/{id}/logs`

use std::collections::VecDeque;

use axum::Json;
use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use emergent_mcp_hosting::{Follower, LogLine};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

use crate::errors::ErrorCode::{FeatureDisabled, McpServerNotFound, NotAcceptable};
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Accepted, Granted, Query};
use crate::state::ApiState;
use crate::streaming::{EventSource, event, events};

/// How many lines where nothing is said, and at most.
const DEFAULT_LINES: u32 = 200;
const MAX_LINES: u32 = 2000;

/// Which lines.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Only lines after the one of this number.
    after: Option<u64>,
    /// The last so many: 1 to 2000, else 200.
    #[param(minimum = 1, maximum = 2000)]
    limit: Option<u32>,
    /// Whether to go on with what is still to come, as events.
    follow: Option<bool>,
}

/// Lines of a server's log.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpLog {
    /// Oldest first.
    lines: Vec<McpLogLine>,
    /// Lines between `after` and the first of these.
    missed: u64,
}

/// A line of a server's log.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpLogLine {
    /// Grows from line to line, from 1 on; begins anew when this server starts.
    number: u64,
    /// When it was heard.
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    /// `stderr`, `stdout` (of a server without a stdio bridge), `protocol` or `supervisor`.
    #[schema(example = "stderr")]
    stream: &'static str,
    /// The text, as the program wrote it.
    text: String,
}

impl From<LogLine> for McpLogLine {
    fn from(line: LogLine) -> Self {
        Self { number: line.number, at: line.at, stream: line.stream.as_str(), text: line.text }
    }
}

documented_errors!(Errors: PRIVATE, QUERY, &[FeatureDisabled, McpServerNotFound, NotAcceptable]);

/// Reads what a server's program wrote to stderr, and what happened to it.
///
/// With `Accept: text/event-stream` or `follow=true` the answer goes on with what comes: events `line`, whose
/// id is the line's number.
#[utoipa::path(
    get,
    path = "/api/v1/mcp/servers/{id}/logs",
    tag = "MCP servers",
    operation_id = "read_mcp_server_logs",
    params(("id" = String, Path, description = "The server's name or id."), Parameters),
    responses(
        (status = 200, description = "The last lines.", content(
            (McpLog = "application/json"),
            (crate::streaming::ServerSentEvent = "text/event-stream"),
        )),
        Errors,
    )
)]
pub(crate) async fn logs(
    State(state): State<ApiState>,
    server: Granted,
    accepted: Accepted,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let limit = parameters.limit.unwrap_or(DEFAULT_LINES);
    if !(1..=MAX_LINES).contains(&limit) {
        return Err(ApiError::invalid("limit", format!("must be between 1 and {MAX_LINES}, not {limit}")));
    }
    let after = parameters.after.unwrap_or(0);
    let page = server.servers.logs(&server.name, after, limit as usize)?;
    if accepted == Accepted::Json && parameters.follow != Some(true) {
        let lines = page.lines.into_iter().map(McpLogLine::from).collect();
        return Ok(Json(McpLog { lines, missed: page.missed }).into_response());
    }
    let last = page.lines.last().map_or(after, |line| line.number);
    let follower = server.servers.follow_logs(&server.name, Some(last))?;
    Ok(events(Following { ready: page.lines.into(), follower, closing: state.sockets().closing() }))
}

struct Following {
    ready: VecDeque<LogLine>,
    follower: Follower,
    closing: CancellationToken,
}

impl EventSource for Following {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                let number = line.number.to_string();
                return Some(event("line", &McpLogLine::from(line)).id(number));
            }
            let page = tokio::select! {
                page = self.follower.next() => page?,
                () = self.closing.cancelled() => return None,
            };
            self.ready = page.lines.into();
        }
    }
}
