//! Passing a request on, with what the host wants to be shown, and its answer back, without what is nobody's
//! business.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use emergent_store::WorkspaceRow;
use emergent_types::WorkspaceId;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
    HOST, LOCATION, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::connect::connect;
use crate::credentials::{Access, Credential};
use crate::hosts::Standing;
use crate::refusal::Refusal;
use crate::service::Shared;
use crate::transfers::Transfer;
use crate::url::RepositoryUrl;
use crate::uses::Use;

use super::exchange::{GitService, Step};
use super::limited::{BodyError, BoxedBody, Counter, Limited, Watcher};

/// Which version of its protocol git wants to speak.
const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// Some hosts serve git to git alone.
const AGENT: &str = concat!("git/2.47.0 (emergent ", env!("CARGO_PKG_VERSION"), ")");

/// An answer of a host, as it may be passed on.
pub(super) struct Forwarded {
    workspace: WorkspaceId,
    host: String,
    response: Response<Incoming>,
    sent: Arc<AtomicU64>,
    is_authenticated: bool,
}

/// Asks the repository's host.
pub(super) async fn forward(
    shared: &Shared,
    workspace: &WorkspaceRow,
    url: &RepositoryUrl,
    step: Step,
    request: Request<Incoming>,
) -> Result<Forwarded, Refusal> {
    let host = url.origin().to_string();
    let standing =
        shared.hosts.standing(url.origin()).map_err(|_| Refusal::HostNotAllowed { host: host.clone() })?;
    let (Step::Advertise(service) | Step::Call(service)) = step;
    let access = match service {
        GitService::UploadPack => Access::Read,
        GitService::ReceivePack => Access::Write,
    };
    let credential = shared.credentials.find(url, standing, access).await?;
    let authorization = credential.as_ref().and_then(Credential::header);
    let is_authenticated = authorization.is_some();
    let sent = Arc::new(AtomicU64::new(0));
    let (head, body) = request.into_parts();
    let plan = Plan { shared, url, standing, step, headers: &head.headers, authorization };
    let asking = async {
        let first = plan.ask(shared.dotted.has(url), Some(body), sent.clone()).await?;
        if !plan.leads_to_dotted(&first) {
            return Ok(first);
        }
        shared.dotted.note(url.clone());
        plan.ask(true, None, sent.clone()).await
    };
    let response = tokio::time::timeout(shared.limits.answer, asking);
    let response = response.await.map_err(|_| Refusal::TimedOut)??;
    let response = judge(url, standing, step, is_authenticated, response)?;
    Ok(Forwarded { workspace: workspace.id, host, response, sent, is_authenticated })
}

/// What is asked of a host.
struct Plan<'a> {
    shared: &'a Shared,
    url: &'a RepositoryUrl,
    standing: Standing,
    step: Step,
    /// As they came from the sandbox.
    headers: &'a HeaderMap,
    authorization: Option<HeaderValue>,
}

impl Plan<'_> {
    async fn ask(
        &self,
        is_dotted: bool,
        body: Option<Incoming>,
        sent: Arc<AtomicU64>,
    ) -> Result<Response<Incoming>, Refusal> {
        let request = self.request(is_dotted, body, sent)?;
        send(self.url, self.standing, request, self.shared.limits.sent_bytes >> 20).await
    }

    /// The request, made of what we know. Of what came, the body and a few headers with known values are used.
    fn request(
        &self,
        is_dotted: bool,
        body: Option<Incoming>,
        sent: Arc<AtomicU64>,
    ) -> Result<Request<BoxedBody>, Refusal> {
        let method = match self.step {
            Step::Advertise(_) => Method::GET,
            Step::Call(_) => Method::POST,
        };
        let mut asked = Request::builder()
            .method(method)
            .uri(self.target(is_dotted))
            .header(HOST, self.url.origin().authority())
            .header(USER_AGENT, AGENT)
            .header(CACHE_CONTROL, "no-cache");
        if let Some(version) = self.headers.get(GIT_PROTOCOL).filter(|value| is_protocol(value)) {
            asked = asked.header(GIT_PROTOCOL, version);
        }
        if accepts_gzip(self.headers) {
            asked = asked.header(ACCEPT_ENCODING, "gzip");
        }
        if let Some(authorization) = &self.authorization {
            asked = asked.header(AUTHORIZATION, authorization);
        }
        let body = match (self.step, body) {
            (Step::Call(service), Some(body)) => {
                asked = asked
                    .header(CONTENT_TYPE, Step::request_type(service))
                    .header(ACCEPT, self.step.answer_type());
                if self.headers.get(CONTENT_ENCODING).is_some_and(|value| value == "gzip") {
                    asked = asked.header(CONTENT_ENCODING, "gzip");
                }
                let limit = self.shared.limits.sent_bytes;
                if let Some(length) = hyper::body::Body::size_hint(&body).exact() {
                    if length > limit {
                        return Err(Refusal::TooLarge { limit_mib: limit >> 20 });
                    }
                    asked = asked.header(CONTENT_LENGTH, length);
                }
                Limited::new(body, limit, self.shared.limits.silence, Counter(sent)).boxed()
            }
            _ => {
                asked = asked.header(ACCEPT, "*/*");
                Empty::<Bytes>::new().map_err(|never| match never {}).boxed()
            }
        };
        asked.body(body).map_err(|_| Refusal::NotGit)
    }

    fn target(&self, is_dotted: bool) -> String {
        let (path, dot) = (self.url.path(), if is_dotted { ".git" } else { "" });
        match self.step {
            Step::Advertise(service) => format!("/{path}{dot}/info/refs?service={}", service.name()),
            Step::Call(service) => format!("/{path}{dot}/{}", service.name()),
        }
    }

    /// Some hosts have a repository under its name with `.git` behind it, and say so. This is the one redirect that
    /// counts, because where it leads is known without it.
    fn leads_to_dotted(&self, response: &Response<Incoming>) -> bool {
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let dotted = self.target(true);
        matches!(self.step, Step::Advertise(_))
            && response.status().is_redirection()
            && !self.url.path().ends_with(".git")
            && !self.shared.dotted.has(self.url)
            && to.is_some_and(|to| to.strip_prefix(&self.url.origin().to_string()).unwrap_or(to) == dotted)
    }
}

fn is_protocol(value: &HeaderValue) -> bool {
    matches!(value.as_bytes(), b"version=0" | b"version=1" | b"version=2")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.split(',').any(|one| one.trim() == "gzip"))
}

async fn send(
    url: &RepositoryUrl,
    standing: Standing,
    request: Request<BoxedBody>,
    limit_mib: u64,
) -> Result<Response<Incoming>, Refusal> {
    let broken = |error: hyper::Error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(inner) = cause {
            match inner.downcast_ref::<BodyError>() {
                Some(BodyError::TooLarge) => return Refusal::TooLarge { limit_mib },
                // Of the sandbox's own connection: the host has done nothing.
                Some(BodyError::Silent | BodyError::Broken(_)) => return Refusal::BrokenOff,
                None => {}
            }
            cause = inner.source();
        }
        Refusal::Unreachable { host: url.origin().to_string(), reason: "the connection broke".to_owned() }
    };
    let connection = connect(url.origin(), standing).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await.map_err(broken)?;
    // Ends when both directions have; a body that is dropped ends it too.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(broken)
}

/// Whether this is the answer of a git server to somebody it knows.
fn judge(
    url: &RepositoryUrl,
    standing: Standing,
    step: Step,
    is_authenticated: bool,
    response: Response<Incoming>,
) -> Result<Response<Incoming>, Refusal> {
    let host = || url.origin().to_string();
    let unknown = || match standing.is_github {
        true => Refusal::GitHubAuthentication,
        false => Refusal::Authentication { host: host() },
    };
    let status = response.status();
    let is_git =
        response.headers().get(CONTENT_TYPE).is_some_and(|found| found == step.answer_type().as_str());
    match status {
        StatusCode::OK if is_git => Ok(response),
        StatusCode::OK => Err(Refusal::NotGit),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(unknown()),
        // GitHub does not tell strangers which private repositories there are.
        StatusCode::NOT_FOUND if standing.is_github && !is_authenticated => Err(unknown()),
        StatusCode::NOT_FOUND | StatusCode::GONE => Err(Refusal::NotFound),
        StatusCode::PAYLOAD_TOO_LARGE => Err(Refusal::TooLargeThere { host: host() }),
        status if status.is_redirection() => Err(Refusal::Moved),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(Refusal::Unavailable { host: host(), status: status.as_u16() })
        }
        _ => Err(Refusal::NotGit),
    }
}

impl Forwarded {
    /// The answer for the sandbox. Its use is written down when it has passed.
    pub(super) fn answer(self, shared: Arc<Shared>, mut noted: Use) -> Response<BoxedBody> {
        noted.note("authenticated", self.is_authenticated);
        let (head, body) = self.response.into_parts();
        let transfer = shared.transfers.find(self.workspace);
        let limits = shared.limits.clone();
        let watcher = Passing {
            shared,
            workspace: self.workspace,
            host: self.host,
            sent: self.sent,
            received: 0,
            limit_mib: limits.received_bytes >> 20,
            transfer,
            noted: Some(noted),
        };
        let limited = Limited::new(body, limits.received_bytes, limits.silence, watcher);
        let mut answer = Response::new(limited.boxed());
        for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH, CACHE_CONTROL] {
            if let Some(value) = head.headers.get(&name) {
                answer.headers_mut().insert(name, value.clone());
            }
        }
        answer
    }
}

/// An answer on its way.
struct Passing {
    shared: Arc<Shared>,
    workspace: WorkspaceId,
    host: String,
    sent: Arc<AtomicU64>,
    received: u64,
    limit_mib: u64,
    transfer: Option<Arc<Transfer>>,
    noted: Option<Use>,
}

impl Passing {
    fn note_sizes(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.note("received_bytes", self.received);
            noted.note("sent_bytes", self.sent.load(Ordering::Relaxed));
        }
    }
}

impl Watcher for Passing {
    fn passed(&mut self, bytes: u64) {
        self.received += bytes;
        if let Some(transfer) = &self.transfer {
            transfer.receive(bytes);
        }
    }

    fn ended(&mut self, error: Option<&BodyError>) {
        self.note_sizes();
        let refusal = error.map(|error| match error {
            BodyError::TooLarge => Refusal::TooLarge { limit_mib: self.limit_mib },
            BodyError::Silent => Refusal::TimedOut,
            BodyError::Broken(_) => {
                let reason = "the connection broke".to_owned();
                Refusal::Unreachable { host: self.host.clone(), reason }
            }
        });
        if let Some(noted) = self.noted.take() {
            noted.end(refusal.as_ref().map(Refusal::code));
        }
        if let Some(refusal) = refusal {
            self.shared.refusals.note(self.workspace, refusal);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // Broken off by the sandbox: the sizes so far are worth knowing.
        self.note_sizes();
    }
}
