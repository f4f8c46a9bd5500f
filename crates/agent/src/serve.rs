//! Serving connections.
//!
//! HTTP/2 is driven directly rather than through tonic's server, for two reasons: connections
//! end when serving ends (there they are tasks of their own), and what a stalled reader may
//! make the agent buffer can be bounded.

use std::future::{Future, Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use emergent_protocol::v1::agent_server::AgentServer;
use emergent_protocol::{MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, http2};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;

use crate::agent::{Agent, Config};
use crate::body::Tracked;
use crate::hello::Connection;
use crate::service::Service;

/// What is buffered for a reader that does not read, beyond what is in flight already.
const SEND_BUFFER: usize = 128 << 10;

/// How long no connection is accepted after one could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The only call that is answered before itself.
const HELLO_PATH: &str = "/emergent.agent.v1.Agent/Hello";

/// Why serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There will be no more connections, and the last one has been closed.
    NoMoreConnections,
    /// The deadline has passed and no control plane was heard of: the sandbox is to end.
    LeaseOver,
}

/// Runs a new agent on these connections. See [`Agent::serve`].
pub async fn serve<S, C>(incoming: S, config: Config) -> Ended
where
    S: Stream<Item = io::Result<C>>,
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    Agent::new(config).serve(incoming).await
}

impl Agent {
    /// Serves these connections until there are no more of them or the sandbox's time is over.
    ///
    /// Dropping the future closes all connections, which ends the commands of their calls;
    /// background processes go on. A connection that could not be accepted is left out: most
    /// often the process is out of file descriptors, and will have some again.
    pub async fn serve<S, C>(&self, incoming: S) -> Ended
    where
        S: Stream<Item = io::Result<C>>,
        C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut incoming = std::pin::pin!(incoming);
        let mut connections = JoinSet::new();
        let mut lease_over = std::pin::pin!(self.shared.lease.over());
        loop {
            tokio::select! {
                next = incoming.next() => match next {
                    Some(Ok(stream)) => {
                        connections.spawn(self.clone().converse(stream));
                    }
                    Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
                    None => break,
                },
                // Their places are freed; how they ended is their own matter.
                Some(_) = connections.join_next() => {}
                () = &mut lease_over => return Ended::LeaseOver,
            }
        }
        while connections.join_next().await.is_some() {}
        Ended::NoMoreConnections
    }

    /// One connection, to its end.
    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let connection = Arc::new(Connection::new(self.shared.clone()));
        let server = AgentServer::new(Service { shared: self.shared, connection: connection.clone() })
            .max_decoding_message_size(MAX_REQUEST_BYTES)
            .max_encoding_message_size(MAX_ANSWER_BYTES);
        let served = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(http2::STREAM_WINDOW)
            .initial_connection_window_size(http2::CONNECTION_WINDOW)
            .max_concurrent_streams(http2::MAX_CONCURRENT_STREAMS)
            .max_send_buf_size(SEND_BUFFER)
            // No keepalive from here: a paused sandbox must not find its connections dead
            // when it wakes.
            .serve_connection(TokioIo::new(stream), Gate { connection, server });
        // A connection ends when the other side closes it or breaks it; both are ordinary.
        let _ = served.await;
    }
}

/// Lets nothing but Hello through before Hello.
struct Gate {
    connection: Arc<Connection>,
    server: AgentServer<Service>,
}

type Response = http::Response<Body>;

impl hyper::service::Service<http::Request<Incoming>> for Gate {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        if self.connection.has_greeted() || request.uri().path() == HELLO_PATH {
            Answer::Served(self.server.clone().call(Tracked::request(request)))
        } else {
            let refusal = Status::unauthenticated("the first call on a connection must be Hello");
            Answer::Refused(ready(refusal.into_http()))
        }
    }
}

/// An answer of the agent's, or of the gate's.
enum Answer {
    Served(<AgentServer<Service> as tonic::codegen::Service<http::Request<Tracked>>>::Future),
    Refused(Ready<Response>),
}

impl Future for Answer {
    type Output = Result<Response, std::convert::Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Served(answer) => answer.as_mut().poll(context),
            Self::Refused(refusal) => Pin::new(refusal).poll(context).map(Ok),
        }
    }
}
