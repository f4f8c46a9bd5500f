//! `POST /api/v1/agent/workspaces/{id}/attach` and `/detach`, `GET …/{id}/attachments`

use axum::Json;
use emergent_store::Attachment;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::Workspace;
use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{WorkspaceAttached, WorkspaceNotReady};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, OptionalJsonBody, WorkspacePath, Workspaces};

/// Who comes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachSession {
    /// The session that works in the workspace from now on.
    session_id: Uuid,
}

/// Who goes.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetachSession {
    /// The session, if it is there; whoever is there where not said.
    session_id: Option<Uuid>,
}

/// Who works and has worked in a workspace.
#[derive(Serialize, ToSchema)]
pub(crate) struct Attachments {
    /// In order.
    items: Vec<SessionTime>,
}

/// A session's time in a workspace.
#[derive(Serialize, ToSchema)]
struct SessionTime {
    /// Who.
    session_id: Uuid,
    /// Since when.
    #[serde(with = "time::serde::rfc3339")]
    attached_at: OffsetDateTime,
    /// Until when; null for the one that is there now.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    detached_at: Option<OffsetDateTime>,
}

impl From<Attachment> for SessionTime {
    fn from(attachment: Attachment) -> Self {
        let Attachment { workspace_id: _, session_id, attached_at, detached_at } = attachment;
        Self { session_id, attached_at, detached_at }
    }
}

documented_errors!(AttachErrors: PRIVATE, JSON_BODY, WORKSPACE, &[WorkspaceNotReady, WorkspaceAttached]);

/// Lets a session work in a workspace. While it does no other can: sessions come one after the other. Does
/// nothing where it is there already.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/attach",
    tag = "workspaces",
    operation_id = "attach_session",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = AttachSession,
    responses((status = 200, description = "It is there.", body = Workspace), AttachErrors)
)]
pub(crate) async fn attach(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    operation: Operation,
    JsonBody(request, _): JsonBody<AttachSession>,
) -> Result<Json<Workspace>, ApiError> {
    let summary = Summary::default().text("session_id", &request.session_id.to_string());
    let record = operation.begin("attach_session", Some(id), summary);
    let attached = record.end(workspaces.attach(id, request.session_id).await.map_err(ApiError::from))?;
    Ok(Json(attached.into()))
}

documented_errors!(DetachErrors: PRIVATE, JSON_BODY, WORKSPACE, &[WorkspaceNotReady]);

/// Lets the session of a workspace go. Does nothing where it is not there.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/detach",
    tag = "workspaces",
    operation_id = "detach_session",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = Option<DetachSession>,
    responses((status = 200, description = "It is gone.", body = Workspace), DetachErrors)
)]
pub(crate) async fn detach(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    operation: Operation,
    OptionalJsonBody(request): OptionalJsonBody<DetachSession>,
) -> Result<Json<Workspace>, ApiError> {
    let record = operation.begin("detach_session", Some(id), Summary::default());
    let detached = record.end(workspaces.detach(id, request.session_id).await.map_err(ApiError::from))?;
    Ok(Json(detached.into()))
}

documented_errors!(ListErrors: PRIVATE, WORKSPACE);

/// Lists the sessions that work and have worked in a workspace, in order.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/attachments",
    tag = "workspaces",
    operation_id = "list_attachments",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    responses((status = 200, description = "All of them.", body = Attachments), ListErrors)
)]
pub(crate) async fn attachments(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
) -> Result<Json<Attachments>, ApiError> {
    let items = workspaces.attachments(id).await?;
    Ok(Json(Attachments { items: items.into_iter().map(SessionTime::from).collect() }))
}
