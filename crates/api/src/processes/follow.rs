//! `GET /api/v1/agent/workspaces/{id}/processes/{process_id}/output`

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use emergent_agent_client::{OutputFollower, StreamKind};
use emergent_types::WorkspaceId;
use emergent_workspaces::{ToolCall, ToolError};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

use super::output::{OutputPage, PAGE_LIMIT};
use crate::audit::Summary;
use crate::errors::ErrorCode::{self, ProcessNotFound};
use crate::errors::{ApiError, PRIVATE, QUERY, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{CallRecord, ProcessPath, Query, Tool};
use crate::state::ApiState;
use crate::streaming::{EventSource, ServerSentEvent, TextDecoder, event, events, failed};

/// Which output.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Which stream; `stdout` where not said.
    #[param(inline)]
    stream: Option<OutputStream>,
    /// Where to begin, in bytes from the first one ever printed; 0 where not said.
    offset: Option<u64>,
    /// Whether to wait for what is still to come until the process has ended; not where not said.
    follow: Option<bool>,
}

/// A stream of a process.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, &[ProcessNotFound]);

/// Streams what a background process has printed, and prints.
///
/// Events, each with JSON as its data: `output`, with `offset`, `text` and `next_offset`; at the
/// end `end`, with `next_offset`, or `error`. The last mebibyte of each stream is kept: what is
/// asked for and gone is skipped, and the first `offset` says so.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/processes/{process_id}/output",
    tag = "processes",
    operation_id = "follow_process",
    params(
        ("id" = WorkspaceId, Path, description = "The workspace."),
        ("process_id" = u64, Path, description = "The process."),
        Parameters,
    ),
    responses(
        (status = 200, description = "The output.", body = ServerSentEvent, content_type = "text/event-stream"),
        Errors,
    )
)]
pub(crate) async fn follow(
    State(state): State<ApiState>,
    tool: Tool,
    ProcessPath(process_id): ProcessPath,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let stream = match parameters.stream.unwrap_or(OutputStream::Stdout) {
        OutputStream::Stdout => StreamKind::Stdout,
        OutputStream::Stderr => StreamKind::Stderr,
    };
    let offset = parameters.offset.unwrap_or(0);
    let follow = parameters.follow.unwrap_or(false);
    let summary = Summary::default().value("process_id", process_id).value("follow", follow);
    let call = tool.begin(summary).await?;
    let chunks = match call.process_output(process_id, stream, offset, follow).await {
        Ok(chunks) => chunks,
        Err(error) => return call.end(Err(error.into())),
    };
    let (tool, record) = call.split();
    let closing = state.sockets().closing();
    Ok(events(Following {
        chunks,
        _tool: tool,
        record: Some(record),
        closing,
        patience: (!follow).then_some(PAGE_LIMIT),
        text: OutputText::new(offset),
        waiting: Vec::new(),
    }))
}

struct Following {
    chunks: OutputFollower,
    /// The workspace is in use as long as somebody follows.
    _tool: ToolCall,
    /// Until it has ended.
    record: Option<CallRecord>,
    closing: CancellationToken,
    /// How long the agent may take for more, where everything that is asked for is there already.
    patience: Option<Duration>,
    text: OutputText,
    /// The last events, the last one first. There are some when it is over.
    waiting: Vec<Event>,
}

impl EventSource for Following {
    async fn next(&mut self) -> Option<Event> {
        // From one event to the next, not from piece to piece: pieces may be empty.
        let until = self.patience.map(|patience| Instant::now() + patience);
        loop {
            if let Some(event) = self.waiting.pop() {
                return Some(event);
            }
            if self.text.is_over {
                return None;
            }
            let chunk = tokio::select! {
                chunk = self.chunks.next() => chunk.map_err(|error| ApiError::from(ToolError::from(error))),
                () = self.closing.cancelled() => return None,
                () = passed(until) => {
                    Err(ApiError::new(ErrorCode::Timeout, "the output did not arrive in time"))
                }
            };
            match chunk {
                Ok(Some(chunk)) => {
                    if let Some(page) = self.text.add(chunk.offset, &chunk.data) {
                        return Some(event("output", &page));
                    }
                }
                Ok(None) => {
                    self.note(None);
                    let rest = self.text.finish();
                    self.waiting.push(event("end", &json!({ "next_offset": self.text.end })));
                    self.waiting.extend(rest.map(|page| event("output", &page)));
                }
                Err(error) => {
                    self.text.is_over = true;
                    self.note(Some(error.code()));
                    self.waiting.push(failed(error));
                }
            }
        }
    }
}

async fn passed(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl Following {
    fn note(&mut self, failure: Option<ErrorCode>) {
        if let Some(record) = self.record.take() {
            record.ended(failure);
        }
    }
}

/// Output as text, with the places where it stands.
struct OutputText {
    decoder: TextDecoder,
    /// Behind the last byte that came.
    end: u64,
    is_over: bool,
}

impl OutputText {
    fn new(offset: u64) -> Self {
        Self { decoder: TextDecoder::default(), end: offset, is_over: false }
    }

    /// The text of the next bytes, as far as it is whole.
    fn add(&mut self, offset: u64, bytes: &[u8]) -> Option<OutputPage> {
        if offset != self.end {
            // Something in between is not kept any more, and what had begun before it neither.
            self.decoder = TextDecoder::default();
            self.end = offset;
        }
        let begin = self.end.saturating_sub(self.decoder.held() as u64);
        let text = self.decoder.decode(bytes);
        self.end = self.end.saturating_add(bytes.len() as u64);
        let next_offset = self.end.saturating_sub(self.decoder.held() as u64);
        (!text.is_empty()).then(|| OutputPage::new(begin, text, next_offset))
    }

    /// What is left when there is no more to come.
    fn finish(&mut self) -> Option<OutputPage> {
        self.is_over = true;
        let begin = self.end.saturating_sub(self.decoder.held() as u64);
        let text = self.decoder.finish();
        (!text.is_empty()).then(|| OutputPage::new(begin, text, self.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_bytes() {
        let mut output = OutputText::new(5);
        let page = |offset, text: &str, next| Some(OutputPage::new(offset, text.to_owned(), next));
        assert_eq!(output.add(5, b"ab"), page(5, "ab", 7));
        assert_eq!(output.add(7, b"c\xc3"), page(7, "c", 8));
        assert_eq!(output.add(9, b"\xa4d"), page(8, "\u{e4}d", 11));
        // Something is gone.
        assert_eq!(output.add(11, b"\xc3"), None);
        assert_eq!(output.add(20, b"e\xc3"), page(20, "e", 21));
        assert_eq!(output.finish(), page(21, "\u{fffd}", 22));
        assert_eq!((output.finish(), output.end), (None, 22));
    }
}
