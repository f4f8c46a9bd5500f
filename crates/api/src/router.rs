//! Every path, with the function that serves it.

use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::errors::ApiError;
use crate::openapi::Frame;
use crate::state::ApiState;
use crate::{
    alerts, audit, auth, events, files, git_hosts, health, hosts, mcp, metrics, observe, openapi, processes,
    providers, snapshots, tokens, warm_pool, workspaces,
};

/// Every endpoint. Who may call it is in the table of [`access`](crate::access).
fn all() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(health::healthz::healthz))
        .routes(routes!(health::readyz::readyz))
        .routes(routes!(openapi::get::get))
        .routes(routes!(metrics::get::get))
        .routes(routes!(audit::list::list))
        .routes(routes!(alerts::list::list))
        .routes(routes!(events::follow::follow))
        .routes(routes!(tokens::list::list, tokens::create::create))
        .routes(routes!(tokens::get::get, tokens::revoke::revoke))
        .routes(routes!(workspaces::list::list, workspaces::create::create))
        .routes(routes!(providers::list::list))
        .routes(routes!(workspaces::get::get, workspaces::destroy::destroy))
        .routes(routes!(workspaces::metrics::metrics))
        .routes(routes!(workspaces::stop::stop))
        .routes(routes!(workspaces::resume::resume))
        .routes(routes!(workspaces::attach::attach))
        .routes(routes!(workspaces::attach::detach))
        .routes(routes!(workspaces::attach::attachments))
        .routes(routes!(workspaces::snapshot::snapshot))
        .routes(routes!(workspaces::fork::fork))
        .routes(routes!(workspaces::from_snapshot::from_snapshot))
        .routes(routes!(snapshots::list::list))
        .routes(routes!(snapshots::get::get, snapshots::delete::delete))
        .routes(routes!(warm_pool::get::get, warm_pool::put::put))
        .routes(routes!(git_hosts::list::list, git_hosts::put::put, git_hosts::delete::delete))
        .routes(routes!(workspaces::bash::bash))
        .routes(routes!(workspaces::bash::exec))
        .routes(routes!(workspaces::read::read))
        .routes(routes!(workspaces::write::write))
        .routes(routes!(workspaces::edit::edit))
        .routes(routes!(workspaces::glob::glob))
        .routes(routes!(workspaces::grep::grep))
        .routes(routes!(workspaces::git::git))
        .routes(routes!(workspaces::mcp::send::send))
        .routes(routes!(workspaces::terminal::terminal))
        .routes(routes!(workspaces::tunnel::tunnel))
        .routes(routes!(workspaces::watch::watch))
        .routes(routes!(files::download::download, files::upload::upload))
        .routes(routes!(processes::list::list))
        .routes(routes!(processes::get::get, processes::signal::signal))
        .routes(routes!(processes::follow::follow))
        .routes(routes!(mcp::list::list, mcp::register::register))
        .routes(routes!(mcp::get::get, mcp::update::update, mcp::delete::delete))
        .routes(routes!(mcp::restart::restart))
        .routes(routes!(mcp::logs::logs))
        .routes(routes!(mcp::call::call))
        .routes(routes!(mcp::endpoint::send, mcp::endpoint::listen, mcp::endpoint::end))
        .routes(routes!(mcp::combined::send, mcp::combined::listen, mcp::combined::end))
}

/// Everything, with its description.
pub(crate) fn endpoints() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(Frame::openapi()).merge(all())
}

/// The service as it is run: endpoints behind everything that is common to them.
pub(crate) fn router(state: ApiState) -> Router {
    let (all, _) = all().split_for_parts();
    all.fallback(unreachable)
        .method_not_allowed_fallback(unreachable)
        .layer(from_fn_with_state(state.clone(), auth::admit))
        .layer(from_fn_with_state(state.clone(), hosts::require_known_host))
        .layer(map_response(never_cached))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(Extension(workspaces::mcp::Toolbox::new(&state)))
        .layer(from_fn(observe::observe))
        .with_state(state)
}

/// The wall answers for what has no row in the table, so nothing gets here.
async fn unreachable() -> ApiError {
    ApiError::internal("a request without a row in the table of access passed")
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
