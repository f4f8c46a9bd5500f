//! `POST /api/v1/mcp/servers`

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use emergent_mcp_hosting::Registered;
use emergent_store::IdempotencyKey;

use super::register_request::RegisterMcpServer;
use super::view::McpServer;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    FeatureDisabled, IdempotencyConflict, ImageNotFound, LimitReached, McpServerExists, NoProviderAvailable,
    NotEnforceable, ProviderDisabled,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{FingerprintedBody, IdempotencyHeader, McpServers};
use crate::workspaces::create::REPLAYED;

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    FeatureDisabled, NotEnforceable, ProviderDisabled, ImageNotFound, McpServerExists, IdempotencyConflict,
    LimitReached,
    NoProviderAvailable,
]);

/// Registers an MCP server, makes its sandbox and starts its program.
///
/// Answers when the program is ready or has failed, after ten seconds at the latest; `health` tells. From now
/// on it runs until it is deleted, over restarts of this server.
///
/// Sent again with the same `Idempotency-Key`, it registers no second server: the answer is the first one's server
/// as it is now, with the header `Idempotency-Replayed`.
#[utoipa::path(
    post,
    path = "/api/v1/mcp/servers",
    tag = "MCP servers",
    operation_id = "register_mcp_server",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Up to 255 characters that name this registration."),
    ),
    request_body = RegisterMcpServer,
    responses((status = 201, description = "It is registered.", body = McpServer), Errors)
)]
pub(crate) async fn register(
    McpServers(servers): McpServers,
    caller: Caller,
    operation: Operation,
    IdempotencyHeader(key): IdempotencyHeader,
    body: FingerprintedBody<RegisterMcpServer>,
) -> Result<Response, ApiError> {
    let key = key.map(|key| IdempotencyKey { owner: caller.id(), key, fingerprint: body.fingerprint });
    let registration = emergent_mcp_hosting::Registration::from(body.value);
    let summary = Summary::default()
        .maybe("server", registration.name.as_deref())
        .maybe("image", registration.image.as_deref())
        .list("environment", registration.environment.keys().map(String::as_str));
    let mut record = operation.begin("register_mcp_server", None, summary);
    let registered = servers.register_once(registration, key).await;
    if let Ok(registered) = &registered {
        record.about(registered.view.server.id);
    }
    let Registered { view, replayed } = record.end(registered.map_err(ApiError::from))?;
    let mut response = (StatusCode::CREATED, Json(McpServer::shown(view, &caller))).into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
