//! The credential broker: git's smart HTTP, from a sandbox to the hosts of its workspace's repositories.
//!
//! ```text
//!   GET  /<repository>/info/refs?service=git-upload-pack     what is there, to fetch
//!   POST /<repository>/git-upload-pack                       fetch
//!   GET  /<repository>/info/refs?service=git-receive-pack    what is there, to push
//!   POST /<repository>/git-receive-pack                      push
//! ```
//!
//! Nothing else is there. Which workspace asks is known from the stream; which repositories it has, from its row.
//! Of what the sandbox sends, the two names above and the body are used, with a few headers that have one of a few
//! values. The token is added behind this wall, to a request that was made here, for a host that was checked; an
//! answer that leads elsewhere is not followed, and its headers stay here too.

mod exchange;
mod forward;
mod limited;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use emergent_agent_client::TunnelStream;
use emergent_store::WorkspaceRow;
use emergent_workspaces::HostService;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::refusal::Refusal;
use crate::service::Shared;
use crate::url::RepositoryUrl;

use exchange::{Exchange, Step};
use limited::BoxedBody;

/// How long the head of a request may take.
const HEADER_LIMIT: Duration = Duration::from_secs(30);

/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How long a refusal waits: who asks for what is not theirs is in no hurry.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

/// The service `git`.
pub(crate) struct GitBroker {
    pub(crate) shared: Arc<Shared>,
}

#[async_trait]
impl HostService for GitBroker {
    fn name(&self) -> &'static str {
        "git"
    }

    fn port(&self) -> Option<u16> {
        Some(crate::BROKER_PORT)
    }

    async fn serve(&self, workspace: WorkspaceRow, stream: TunnelStream) {
        self.converse(workspace, stream).await;
    }
}

impl GitBroker {
    async fn converse<S>(&self, workspace: WorkspaceRow, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let workspace = Arc::new(workspace);
        let service = service_fn(|request| {
            let (shared, workspace) = (self.shared.clone(), workspace.clone());
            async move { Ok::<_, Infallible>(answer(shared, workspace, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_LIMIT)
            .half_close(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        // A guest that says nonsense, or says it slowly, only loses its own connection.
        let limit = self.shared.limits.total;
        let _ = tokio::time::timeout(limit, connection).await;
    }
}

async fn answer(
    shared: Arc<Shared>,
    workspace: Arc<WorkspaceRow>,
    request: Request<Incoming>,
) -> Response<BoxedBody> {
    let Some(exchange) = Exchange::read(request.method(), request.uri().path(), request.uri().query()) else {
        tokio::time::sleep(REFUSAL_PAUSE).await;
        return refused(StatusCode::NOT_FOUND, "only git's smart HTTP is here");
    };
    shared.pace.turn(workspace.id).await;
    let tool = match exchange.step {
        Step::Advertise(service) | Step::Call(service) => service.tool(),
    };
    let known = find(&shared, &workspace, &exchange.repository);
    let shown = known.as_ref().map_or_else(|| shortened(&exchange.repository), ToString::to_string);
    let mut noted = shared.uses.begin(tool, &workspace, shown.clone());
    noted.note("step", exchange.step.name());
    let forwarded = match &known {
        None => Err(Refusal::NotTheWorkspaces),
        Some(url) => forward::forward(&shared, &workspace, url, exchange.step, request).await,
    };
    match forwarded {
        Ok(forwarded) => {
            tracing::debug!(workspace = %workspace.id, repository = shown, tool, "the broker passes {tool} on");
            forwarded.answer(shared, noted)
        }
        Err(refusal) => {
            tracing::info!(workspace = %workspace.id, repository = shown, tool, %refusal,
                "the broker refuses {tool} of workspace {}: {refusal}", workspace.id);
            noted.end(Some(refusal.code()));
            let (status, words) = (status(&refusal), refusal.to_string());
            let is_theirs = known.is_some();
            shared.refusals.note(workspace.id, refusal);
            if !is_theirs {
                tokio::time::sleep(REFUSAL_PAUSE).await;
            }
            refused(status, &words)
        }
    }
}

/// The repository of the workspace that the broker has at this path.
fn find(shared: &Shared, workspace: &WorkspaceRow, path: &str) -> Option<RepositoryUrl> {
    let is_it = |url: &RepositoryUrl| url.broker_path() == path;
    let mut urls = workspace.repositories.iter().filter_map(|repository| repository.url.parse().ok());
    urls.find(is_it).or_else(|| shared.grants.find(workspace.id, is_it))
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::NotFound | Refusal::Moved | Refusal::NotGit => StatusCode::NOT_FOUND,
        // Never 401: git would ask somebody for a password.
        Refusal::NotTheWorkspaces
        | Refusal::HostNotAllowed { .. }
        | Refusal::AddressRefused { .. }
        | Refusal::GitHubAuthentication
        | Refusal::Authentication { .. }
        | Refusal::NoToken { .. } => StatusCode::FORBIDDEN,
        Refusal::NoTokenNow | Refusal::Unreachable { .. } | Refusal::Unavailable { .. } => {
            StatusCode::BAD_GATEWAY
        }
        Refusal::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        Refusal::BrokenOff => StatusCode::REQUEST_TIMEOUT,
        Refusal::TooLarge { .. } | Refusal::TooLargeThere { .. } => StatusCode::PAYLOAD_TOO_LARGE,
    }
}

/// What git shows to whoever runs it.
fn refused(status: StatusCode, words: &str) -> Response<BoxedBody> {
    let body = Full::new(Bytes::from(format!("{words}\n"))).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
