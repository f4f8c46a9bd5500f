//! The server: accepts connections and serves the router on them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use emergent_store::Store;
use emergent_workspaces::Handle;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Options;
use crate::router::router;
use crate::state::ApiState;

/// Connections at once. More wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 1024;

/// How long the head of a request may take to arrive, and how long a connection may idle.
const HEADER_LIMIT: Duration = Duration::from_secs(75);

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
    /// `workspaces` is `None` where they are switched off.
    pub async fn run(
        self,
        store: Arc<dyn Store>,
        workspaces: Option<Handle>,
        shutdown: impl Future<Output = ()>,
        grace: Duration,
    ) {
        let state = ApiState::new(store, workspaces, self.address, self.options.allowed_hosts);
        let router = router(state);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        tokio::select! {
            () = accept(self.listener, &router, &graceful, &mut connections) => {}
            () = shutdown => {}
        }
        // The listener is gone with the future that held it.
        if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!(open = connections.len(), "requests still running after {grace:?} are dropped");
        }
        connections.shutdown().await;
    }
}

async fn accept(
    listener: TcpListener,
    router: &Router,
    graceful: &GracefulShutdown,
    connections: &mut JoinSet<()>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Never closed, so there is always a place to wait for.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream, router.clone(), graceful.watcher());
                connections.spawn(async move {
                    served.await;
                    drop(place);
                });
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
async fn serve(stream: TcpStream, router: Router, watcher: Watcher) {
    // Answers are small and each is waited for.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended: {error}");
    }
}
