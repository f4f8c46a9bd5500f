//! The wall in front of every endpoint: lets pass only what the table of access allows.
//!
//! ```text
//!   route ─► row in the table ─► token ─► kind ─► the workspace is the caller's ─► its tool
//!     404          500            401      403               404                     403
//! ```

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use emergent_types::{ContainerType, WorkspaceId};

use super::bounded_life::end_with;
use super::{Caller, credentials};
use crate::access::{self, Access, Found};
use crate::audit::{Call, Summary};
use crate::connections::Connection;
use crate::errors::{ApiError, ErrorCode};
use crate::extract::WorkspacePath;
use crate::metrics::names;
use crate::observe::RequestId;
use crate::state::ApiState;

/// That this request may call a tool, and which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmittedTool {
    pub(crate) name: &'static str,
    pub(crate) workspace: WorkspaceId,
}

/// Lets pass only what the table of access allows, and notes who it is. When the caller's token
/// ends, so does the answer, wherever it is.
pub(crate) async fn admit(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let busy = parts.extensions.get::<Arc<Connection>>().map(Connection::use_it);
    let caller = match check(&state, &mut parts).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal,
    };
    let Some(caller) = caller else { return next.run(Request::from_parts(parts, body)).await };
    let place = match state.in_progress().enter(&caller) {
        Ok(place) => place.map(Arc::new),
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(place) = &place {
        parts.extensions.insert(Arc::clone(place));
    }
    parts.extensions.insert(caller.clone());
    let answer = next.run(Request::from_parts(parts, body));
    let mut response = tokio::select! {
        // The answer of a call that is done is not thrown away.
        biased;
        response = answer => response.map(|body| end_with(body, caller.clone(), (place, busy))),
        () = caller.ended() => not_valid().into_response(),
    };
    response.extensions_mut().insert(caller);
    response
}

/// The same for a request from within, whose caller was let in by the wall before: only what it may do is looked
/// at. Nobody outside gets here.
pub(crate) async fn admit_known(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let (Some(caller), Found::Rule(access)) =
        (parts.extensions.get::<Caller>().cloned(), access::find(&parts.method, &path))
    else {
        return ApiError::internal(format!("{path} was called from within for nobody")).into_response();
    };
    match authorize(&state, &mut parts, &caller, access).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Who is calling; `None` for what is open to everybody.
async fn check(state: &ApiState, parts: &mut Parts) -> Result<Option<Caller>, Response> {
    let path = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let found = match &path {
        Some(path) => access::find(&parts.method, path),
        None => Found::Nothing,
    };
    match found {
        Found::Rule(Access::Public) => return Ok(None),
        Found::OtherMethods { public: true } => {
            return Err(method_not_allowed(&parts.method, path.as_deref().unwrap_or_default()));
        }
        _ => {}
    }
    let caller = authenticate(state, parts).await.map_err(IntoResponse::into_response)?;
    let access = match (found, path) {
        (Found::Rule(access), _) => access,
        (Found::OtherMethods { .. }, path) => {
            return Err(method_not_allowed(&parts.method, &path.unwrap_or_default()));
        }
        (Found::Nothing, None) => return Err(not_found(parts.uri.path()).into_response()),
        (Found::Nothing, Some(path)) => {
            return Err(
                ApiError::internal(format!("{path} has no row in the table of access")).into_response()
            );
        }
    };
    authorize(state, parts, &caller, access).await.map_err(IntoResponse::into_response)?;
    Ok(Some(caller))
}

async fn authenticate(state: &ApiState, parts: &Parts) -> Result<Caller, ApiError> {
    let token = credentials::token(&parts.headers).ok_or_else(|| {
        metrics::counter!(names::AUTH_FAILURES).increment(1);
        ApiError::new(ErrorCode::Unauthorized, "a token is needed: send it as `Authorization: Bearer …`")
    })?;
    let connection = parts.extensions.get::<Arc<Connection>>();
    let known = state.tokens().find(&token).await.map_err(ApiError::from)?;
    let Some(caller) = known.map(Caller::new) else {
        metrics::counter!(names::AUTH_FAILURES).increment(1);
        state.rates().failure(connection.map(|connection| connection.peer()))?;
        return Err(not_valid());
    };
    if let Some(connection) = connection {
        connection.prove();
    }
    state.rates().request(&caller)?;
    Ok(caller)
}

async fn authorize(
    state: &ApiState,
    parts: &mut Parts,
    caller: &Caller,
    access: Access,
) -> Result<(), ApiError> {
    if !access.admits(caller.kind()) {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            format!("a token of kind {} is not enough for this", caller.kind()),
        ));
    }
    // Switched off, there is nothing to look at; the endpoint says so.
    let (true, Some(workspaces)) = (access.is_about_a_workspace(), state.workspaces()) else { return Ok(()) };
    let WorkspacePath(id) = WorkspacePath::from_request_parts(parts, state).await?;
    // A stranger's workspace looks like none.
    if !caller.sees_all() && !workspaces.owner(id).is_some_and(|owner| caller.may_use(id, owner)) {
        return Err(ApiError::workspace_not_found(id));
    }
    if access == Access::ManageWorkspace && workspaces.container_type(id) == Some(ContainerType::McpServer) {
        return Err(ApiError::new(
            ErrorCode::IsMcpServer,
            format!("workspace {id} is the sandbox of an MCP server: see /api/v1/mcp/servers/{id}"),
        ));
    }
    if let Access::Tool { name, needs } = access {
        if !caller.has_tool(needs) {
            let refusal = ApiError::new(
                ErrorCode::ToolNotAllowed,
                format!("Tool '{needs}' is not enabled for this agent type"),
            );
            let call = Call {
                tool: name,
                workspace: Some(id),
                session: workspaces.session(id),
                caller: caller.id(),
                request_id: RequestId::of(&parts.extensions),
                summary: Summary::default(),
            };
            return state.audit().begin(call).end(Err(refusal.detail("tool", needs)));
        }
        parts.extensions.insert(AdmittedTool { name, workspace: id });
    }
    Ok(())
}

fn not_valid() -> ApiError {
    ApiError::new(ErrorCode::Unauthorized, "this token is not known here, or its time is over")
}

fn not_found(path: &str) -> ApiError {
    let path: String = path.chars().take(256).collect();
    ApiError::new(ErrorCode::NotFound, format!("there is no endpoint {path:?}"))
}

fn method_not_allowed(method: &Method, path: &str) -> Response<Body> {
    let method: String = method.as_str().chars().take(32).collect();
    let error = ApiError::new(ErrorCode::MethodNotAllowed, format!("this endpoint has no method {method}"));
    let mut response = error.into_response();
    if let Ok(methods) = HeaderValue::from_str(&access::methods(path)) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}
