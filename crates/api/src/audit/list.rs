//! `GET /api/v1/audit`

use axum::Json;
use axum::extract::State;
use emergent_store::{AuditEntry, AuditFilter, AuditOutcome, TokenId};
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::auth::Caller;
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Query, page};
use crate::state::ApiState;

/// The longest name of a tool that is looked for.
const MAX_TOOL_BYTES: usize = 64;

/// Which entries, and how many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Only those about this workspace. It may be gone.
    #[param(value_type = Option<String>)]
    workspace_id: Option<WorkspaceId>,
    /// Only those of this token.
    #[param(value_type = Option<String>)]
    caller: Option<TokenId>,
    /// Only those of this tool or operation.
    tool: Option<String>,
    /// Only those that ended like this.
    #[param(value_type = Option<String>)]
    outcome: Option<String>,
    /// Only those begun then or later (RFC 3339).
    #[param(value_type = Option<String>)]
    since: Option<String>,
    /// Only those begun before (RFC 3339).
    #[param(value_type = Option<String>)]
    until: Option<String>,
    /// How many at most: 1 to 500, else 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl Parameters {
    fn filter(&self, caller: &Caller, state: &ApiState) -> Result<AuditFilter, ApiError> {
        let outcome = self.outcome.as_deref().map(|text| {
            text.parse::<AuditOutcome>().map_err(|error| ApiError::invalid("outcome", error.to_string()))
        });
        if self.tool.as_ref().is_some_and(|tool| tool.len() > MAX_TOOL_BYTES) {
            return Err(ApiError::invalid("tool", format!("may have {MAX_TOOL_BYTES} bytes at most")));
        }
        // Whoever does not see all sees what they did themselves, and what anybody did in their
        // own workspaces.
        let owner = self.workspace_id.and_then(|id| state.workspaces()?.owner(id));
        let own = caller.owner_filter().filter(|own| owner != Some(Some(*own)));
        if own.is_some() && self.caller.is_some() && self.caller != own {
            return Err(ApiError::invalid("caller", "this token sees only its own calls"));
        }
        Ok(AuditFilter {
            workspace_id: self.workspace_id,
            caller: own.or(self.caller),
            tool: self.tool.clone(),
            outcome: outcome.transpose()?,
            since: instant("since", self.since.as_deref())?,
            until: instant("until", self.until.as_deref())?,
        })
    }
}

fn instant(field: &'static str, text: Option<&str>) -> Result<Option<OffsetDateTime>, ApiError> {
    let parse = |text| {
        OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| ApiError::invalid(field, "not a time: expected one such as 2026-01-31T12:00:00Z"))
    };
    text.map(parse).transpose()
}

/// A call, as it is remembered.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct Entry {
    /// Names it.
    id: Uuid,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    /// The tool or the operation.
    #[schema(example = "bash")]
    tool: String,
    /// The workspace it was for.
    #[schema(required = true)]
    workspace_id: Option<WorkspaceId>,
    /// The agent session it was part of.
    #[schema(required = true)]
    session_id: Option<Uuid>,
    /// The token it was made with.
    #[schema(required = true, value_type = Option<String>)]
    caller: Option<TokenId>,
    /// The `x-request-id` of its answer.
    request_id: String,
    /// How long it took; null while it runs.
    #[schema(required = true)]
    duration_ms: Option<u64>,
    /// `running`, `ok`, `error`, `cancelled` (whoever asked went away) or `interrupted` (the
    /// server ended).
    #[schema(example = "ok")]
    outcome: &'static str,
    /// The code of its error.
    #[schema(required = true)]
    error_code: Option<String>,
    /// What was asked for, in short: a command, a path. Never contents or output.
    summary: Map<String, Value>,
}

impl From<AuditEntry> for Entry {
    fn from(entry: AuditEntry) -> Self {
        Self {
            id: entry.id,
            at: entry.at,
            tool: entry.tool,
            workspace_id: entry.workspace_id,
            session_id: entry.session_id,
            caller: entry.caller,
            request_id: entry.request_id,
            duration_ms: entry.duration_ms,
            outcome: entry.outcome.as_str(),
            error_code: entry.error_code,
            summary: entry.summary,
        }
    }
}

/// A page of the audit log.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditList {
    /// Newest first.
    items: Vec<Entry>,
    /// Asks for the next page; null on the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

documented_errors!(Errors: PRIVATE, QUERY);

/// Lists what was done, newest first.
///
/// Entries appear within a tenth of a second. `admin` and `read_only` tokens see everything,
/// others what they did themselves and
/// what anybody did in the workspace of theirs that `workspace_id` names.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    tag = "audit",
    operation_id = "list_audit",
    params(Parameters),
    responses((status = 200, description = "A page.", body = AuditList), Errors)
)]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(parameters): Query<Parameters>,
) -> Result<Json<AuditList>, ApiError> {
    let filter = parameters.filter(&caller, &state)?;
    let after = page::cursor(parameters.cursor.as_deref())?;
    let page = state.store().list_audit(&filter, after, page::limit(parameters.limit)?).await?;
    let (items, next_cursor) = page::shown(page);
    Ok(Json(AuditList { items, next_cursor }))
}
