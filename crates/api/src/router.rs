//! Every path, with the function that serves it.

use axum::Router;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::errors::{ApiError, ErrorCode};
use crate::openapi::Frame;
use crate::state::ApiState;
use crate::{auth, health, hosts, observe, openapi, processes, providers, workspaces};

/// Open to everybody.
fn public() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(health::healthz::healthz))
        .routes(routes!(health::readyz::readyz))
        .routes(routes!(openapi::get::get))
}

/// Behind a token.
fn private() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(workspaces::list::list, workspaces::create::create))
        .routes(routes!(providers::list::list))
        .routes(routes!(workspaces::get::get, workspaces::destroy::destroy))
        .routes(routes!(workspaces::stop::stop))
        .routes(routes!(workspaces::resume::resume))
        .routes(routes!(workspaces::bash::bash))
        .routes(routes!(workspaces::bash::exec))
        .routes(routes!(workspaces::read::read))
        .routes(routes!(workspaces::write::write))
        .routes(routes!(processes::list::list))
        .routes(routes!(processes::get::get, processes::signal::signal))
}

/// Everything, with its description.
pub(crate) fn endpoints() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(Frame::openapi()).merge(public()).merge(private())
}

/// The service as it is run: endpoints behind everything that is common to them.
pub(crate) fn router(state: ApiState) -> Router {
    let (public, _) = public().split_for_parts();
    let (private, _) = private().split_for_parts();
    let private = private
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(state.clone(), auth::require_token));
    public
        .method_not_allowed_fallback(method_not_allowed)
        .merge(private)
        .layer(from_fn_with_state(state.clone(), hosts::require_known_host))
        .layer(map_response(never_cached))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe::observe))
        .with_state(state)
}

async fn not_found(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(256).collect();
    ApiError::new(ErrorCode::NotFound, format!("there is no endpoint {path:?}"))
}

/// The framework adds the header `Allow`.
async fn method_not_allowed(request: Request) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("this endpoint has no method {}", request.method()))
}

/// Answers are about the present moment, and some hold what nobody else should see.
async fn never_cached(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

/// A mistake of ours ends one request, not the server.
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    ApiError::internal(format!("panicked: {text}")).into_response()
}

#[cfg(test)]
mod tests;
