//! The service `emergent`: what a workspace may know about itself.
//!
//! ```sh
//! curl --unix-socket /run/emergent/services/emergent http://emergent/
//! ```

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use bytes::Bytes;
use emergent_agent_client::TunnelStream;
use emergent_store::WorkspaceRow;
use emergent_workspaces::HostService;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

/// How long one connection may take.
const CONNECTION_LIMIT: Duration = Duration::from_secs(60);

/// How long the head of a request may take.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The service `emergent`: `GET /` tells a workspace's id, its end, its limits and its network.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkspaceInfo;

#[async_trait]
impl HostService for WorkspaceInfo {
    fn name(&self) -> &'static str {
        "emergent"
    }

    async fn serve(&self, workspace: WorkspaceRow, stream: TunnelStream) {
        let info = describe(&workspace);
        let service = service_fn(|request| {
            let answer = answer(&request, &info);
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_LIMIT)
            // Whoever has asked may end its own direction before it hears the answer.
            .half_close(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        // A guest that says nonsense, or says it slowly, only loses its own connection.
        let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
    }
}

fn describe(workspace: &WorkspaceRow) -> Value {
    json!({
        "workspace_id": workspace.id,
        "expires_at": workspace.expires_at.and_then(|end| end.format(&Rfc3339).ok()),
        "resource_limits": workspace.resource_limits,
        "network": workspace.network,
    })
}

fn answer<B>(request: &Request<B>, info: &Value) -> Response<Full<Bytes>> {
    let refused =
        |code: &str, message: &str| json!({ "error": { "code": code, "message": message, "details": {} } });
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/") => (StatusCode::OK, info.clone()),
        (_, "/") => (StatusCode::METHOD_NOT_ALLOWED, refused("method_not_allowed", "only GET is there")),
        _ => (StatusCode::NOT_FOUND, refused("not_found", "only / is there")),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_thing_is_there() {
        let check = |method: &str, path: &str, expect: u16| {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            assert_eq!(answer(&request, &json!({})).status().as_u16(), expect, "{method} {path}");
        };
        check("GET", "/", 200);
        check("GET", "http://emergent/?x", 200);
        check("HEAD", "/", 200);
        check("POST", "/", 405);
        check("GET", "/x", 404);
        check("GET", "/../etc/passwd", 404);
    }
}
