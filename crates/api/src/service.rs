//! The server: accepts connections and serves the router on them.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use emergent_store::Store;
use emergent_workspaces::Handle;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::Options;
use crate::answer_body::AnswerBody;
use crate::audit::{self, Retention};
use crate::connections::{Connections, Entered};
use crate::metrics;
use crate::router::router;
use crate::state::ApiState;
use crate::unread;
use crate::wire::{self, Wire};

/// How long the first request's head may take to arrive.
const FIRST_HEAD_LIMIT: Duration = Duration::from_secs(10);

/// How long the head of a later request may take, and how long a connection may idle.
const HEADER_LIMIT: Duration = Duration::from_secs(75);

/// The most headers of a request, and the most bytes of its head.
const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How long what is left of the audit log may take to be written at the end.
const LAST_WRITE_LIMIT: Duration = Duration::from_secs(5);

/// How long the first request may wait until what the last server was doing is marked as cut off.
const MARK_LIMIT: Duration = Duration::from_secs(2);

/// How often figures that were not asked for are put together.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// How long keys of creates are remembered.
const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long to wait after the kernel refused to accept (most often: too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    #[source]
    pub cause: io::Error,
}

/// The API, listening.
pub struct Service {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
}

impl Service {
    /// Takes the address. Connections wait until [`run`](Self::run) accepts them.
    pub async fn bind(options: Options) -> Result<Self, BindError> {
        let failed = |cause| BindError { address: options.listen, cause };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, options })
    }

    /// Where it listens, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready; then refuses new connections, lets running requests
    /// go on for `grace`, and drops those that are left.
    ///
    /// `workspaces`, `mcp_servers` and `checkout` are `None` where they are switched off.
    pub async fn run(
        self,
        store: Arc<dyn Store>,
        workspaces: Option<Handle>,
        mcp_servers: Option<emergent_mcp_hosting::Handle>,
        checkout: Option<emergent_checkout::Handle>,
        shutdown: impl Future<Output = ()>,
        grace: Duration,
    ) {
        let (listening, options) = (self.address, &self.options);
        let state = ApiState::new(Arc::clone(&store), workspaces, mcp_servers, checkout, listening, options);
        let background = Background::start(&state, store, &self.options).await;
        let sockets = state.sockets().clone();
        let router = router(state);
        let closing = sockets.closing();
        let stall_limit = self.options.stall_limit;
        let mut connections = JoinSet::new();
        tokio::select! {
            () = accept(self.listener, &router, &closing, stall_limit, &mut connections) => {}
            () = shutdown => {}
        }
        // The listener is gone with the future that held it.
        sockets.begin_close();
        let ended = async {
            while connections.join_next().await.is_some() {}
            sockets.closed().await;
        };
        if tokio::time::timeout(grace, ended).await.is_err() {
            tracing::warn!(open = connections.len(), "requests still running after {grace:?} are dropped");
        }
        connections.shutdown().await;
        background.end().await;
    }
}

/// What goes on beside the requests.
struct Background {
    stop: watch::Sender<bool>,
    audit: JoinHandle<()>,
    rest: JoinSet<()>,
}

impl Background {
    /// Returns when the audit log says what became of the last server's calls, so that nobody is
    /// told of one that it still runs; a database that is away is not waited for.
    async fn start(state: &ApiState, store: Arc<dyn Store>, options: &Options) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (marked, is_marked) = oneshot::channel();
        let writer = audit::write(state.audit().clone(), Arc::clone(&store), marked, stopped);
        let audit = tokio::spawn(writer);
        if tokio::time::timeout(MARK_LIMIT, is_marked).await.is_err() {
            tracing::warn!("calls of the last server may be listed as running for a while");
        }
        let mut rest = JoinSet::new();
        let retention = Retention { audit: options.audit_retention, idempotency_keys: IDEMPOTENCY_RETENTION };
        rest.spawn(audit::prune(store, retention));
        match metrics::recorder() {
            Ok(recorder) => drop(rest.spawn(async move {
                loop {
                    recorder.run_upkeep();
                    tokio::time::sleep(METRICS_UPKEEP).await;
                }
            })),
            Err(reason) => tracing::error!(reason, "there will be no figures: {reason}"),
        }
        Self { stop, audit, rest }
    }

    /// Writes what is unwritten. Requests have ended by now.
    async fn end(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(LAST_WRITE_LIMIT, self.audit).await.is_err() {
            tracing::error!("the end of the audit log is lost: it took too long to write");
        }
        self.rest.shutdown().await;
    }
}

async fn accept(
    listener: TcpListener,
    router: &Router,
    closing: &CancellationToken,
    stall_limit: Duration,
    connections: &mut JoinSet<()>,
) {
    let open = Connections::default();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Where all others are busy for somebody, the newcomer goes.
                if let Some(entered) = open.enter(peer.ip()) {
                    connections.spawn(serve(stream, stall_limit, router.clone(), closing.clone(), entered));
                }
            }
            Err(error) => {
                // One that was gone before it was accepted, or too many open files.
                tracing::warn!(%error, "cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection. When the peer goes away, the request in progress is dropped, and
/// whatever it had asked for is cancelled.
async fn serve(
    stream: TcpStream,
    stall_limit: Duration,
    router: Router,
    closing: CancellationToken,
    entered: Entered,
) {
    // Answers are small and each is waited for.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| wire::prepare(&stream)) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let connection = Arc::clone(entered.connection());
    let respond = {
        let connection = Arc::clone(&connection);
        service_fn(move |request: Request<Incoming>| {
            let unanswered = connection.ask();
            let (mut request, reading) = unread::note(request);
            request.extensions_mut().insert(Arc::clone(&connection));
            let answer = router.clone().oneshot(request);
            let connection = Arc::clone(&connection);
            async move {
                let mut answer = answer.await?;
                reading.announce(&mut answer);
                if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                    connection.take_over();
                }
                Ok::<_, Infallible>(answer.map(|body| AnswerBody { body, _unanswered: unanswered }))
            }
        })
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Wire::new(stream, Arc::clone(&connection), stall_limit)), respond)
        // Terminals and tunnels take the connection over.
        .with_upgrades();
    let nothing_came = async {
        tokio::time::sleep(FIRST_HEAD_LIMIT).await;
        if connection.was_used() {
            std::future::pending::<()>().await;
        }
    };
    let (mut served, mut nothing_came) = (pin!(served), pin!(nothing_came));
    let mut told = false;
    loop {
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended: {error}");
                }
                return;
            }
            () = connection.must_close() => {
                tracing::debug!("a connection made room for another");
                connection.abandon();
                return;
            }
            () = nothing_came.as_mut() => {
                tracing::debug!("a connection sent nothing");
                connection.abandon();
                return;
            }
            // An answer that is under way goes on; the server waits for it as long as it may.
            () = closing.cancelled(), if !told => {
                told = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
