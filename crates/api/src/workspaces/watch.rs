//! `GET /api/v1/agent/workspaces/{id}/watch`

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use emergent_agent_client::{Change, ChangeKind, WatchStream};
use emergent_types::WorkspaceId;
use emergent_workspaces::InUse;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

use super::text;
use crate::audit::Summary;
use crate::errors::{ApiError, ErrorCode, PLACE, PRIVATE, QUERY, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{CallRecord, Query, Tool};
use crate::state::ApiState;
use crate::streaming::{EventSource, ServerSentEvent, event, events, failed};

/// What to watch.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// A folder or a file; `/workspace` where not said.
    path: Option<String>,
    /// Whether to watch the folders below it as well; not where not said.
    recursive: Option<bool>,
}

/// A change of a file or folder.
#[derive(Serialize, ToSchema)]
struct FileChange {
    /// Which one, as an absolute path; empty for an overflow.
    path: String,
    /// Where it was, for a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_path: Option<String>,
    /// Whether it is a folder.
    directory: bool,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, PLACE);

/// Watches a folder or a file.
///
/// Events, each with JSON as its data: first `watching`, after which nothing is missed; then
/// `created`, `modified`, `removed`, `renamed` and `attributes`, with `path`, `directory` and for
/// a rename `old_path`; `overflow` when too much happened at once and changes were lost. At the
/// end `end`, when what was watched is gone, or `error`.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/watch",
    tag = "files",
    operation_id = "watch",
    params(("id" = WorkspaceId, Path, description = "The workspace."), Parameters),
    responses(
        (status = 200, description = "What changes.", body = ServerSentEvent, content_type = "text/event-stream"),
        Errors,
    )
)]
pub(crate) async fn watch(
    State(state): State<ApiState>,
    tool: Tool,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let path = parameters.path.map(|path| text::path("path", path)).transpose()?.unwrap_or_default();
    let (call, record) = tool.begin(Summary::default().text("path", &path)).await?.split();
    let changes = match call.watch(&path, parameters.recursive.unwrap_or(false)).await {
        Ok(changes) => changes,
        Err(error) => return record.end(Err(error.into())),
    };
    let closing = state.sockets().closing();
    Ok(events(Watching { record: Some(record), changes, closing, stage: Stage::Begin }))
}

struct Watching {
    /// Until it has ended. Dropped, somebody has looked as long as they wanted.
    record: Option<CallRecord>,
    changes: InUse<WatchStream>,
    closing: CancellationToken,
    stage: Stage,
}

enum Stage {
    Begin,
    Middle,
    Over,
}

impl EventSource for Watching {
    async fn next(&mut self) -> Option<Event> {
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::Middle;
                return Some(event("watching", &json!({})));
            }
            Stage::Middle => {}
            Stage::Over => return None,
        }
        let change = tokio::select! {
            change = self.changes.next() => change,
            () = self.closing.cancelled() => return None,
        };
        Some(match change {
            Ok(Some(change)) => describe(change),
            Ok(None) => {
                self.end(None);
                event("end", &json!({}))
            }
            Err(error) => {
                let error = ApiError::from(error);
                self.end(Some(error.code()));
                failed(error)
            }
        })
    }
}

impl Watching {
    fn end(&mut self, failure: Option<ErrorCode>) {
        self.stage = Stage::Over;
        if let Some(record) = self.record.take() {
            record.ended(failure);
        }
    }
}

fn describe(change: Change) -> Event {
    let name = match change.kind {
        ChangeKind::Created => "created",
        ChangeKind::Modified => "modified",
        ChangeKind::Removed => "removed",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Attributes => "attributes",
        ChangeKind::Overflow => "overflow",
    };
    let data = FileChange { path: change.path, old_path: change.old_path, directory: change.directory };
    event(name, &data)
}
