//! One authenticated HTTP/2 connection to an agent.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use emergent_protocol::http2;
use emergent_protocol::v1::agent_client::AgentClient as Stub;
use emergent_protocol::{MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, v1};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tonic::body::Body;
use tonic::codegen::{Service, http};

use crate::{AgentError, AgentStream};

/// A connection on which Hello has succeeded. Cheap to clone; closes when the last clone
/// and the last call on it are gone.
#[derive(Clone)]
pub(crate) struct Link {
    sender: SendRequest<Body>,
}

impl Link {
    /// Speaks HTTP/2 over the stream and greets the agent.
    pub(crate) async fn open(
        stream: AgentStream,
        greeting: v1::HelloRequest,
    ) -> Result<(Self, v1::HelloResponse), AgentError> {
        let link = Self::open_without_greeting(stream).await?;
        let answer = link.stub().hello(greeting).await;
        let answer = answer.map_err(|status| AgentError::from_status("hello", &status))?.into_inner();
        emergent_protocol::agree(answer.generation)
            .map_err(|error| AgentError::Refused { reason: error.to_string() })?;
        Ok((link, answer))
    }

    pub(crate) async fn open_without_greeting(stream: AgentStream) -> Result<Self, AgentError> {
        let unreachable =
            |error: hyper::Error| AgentError::Unreachable { reason: error.to_string(), not_sent: true };
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(http2::STREAM_WINDOW)
            .initial_connection_window_size(http2::CONNECTION_WINDOW)
            .keep_alive_interval(http2::KEEPALIVE_INTERVAL)
            .keep_alive_timeout(http2::KEEPALIVE_TIMEOUT)
            // An idle or paused sandbox is left in peace; the next call finds out.
            .keep_alive_while_idle(false)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(unreachable)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "agent connection ended");
            }
        });
        Ok(Self { sender })
    }

    /// The connection is gone; calls on it would fail.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Typed calls over this connection.
    pub(crate) fn stub(&self) -> Stub<Transport> {
        Stub::new(Transport { sender: self.sender.clone() })
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(MAX_REQUEST_BYTES)
    }
}

/// Adapts hyper's sender to what the generated client wants.
#[derive(Clone)]
pub struct Transport {
    sender: SendRequest<Body>,
}

type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<http::Response<hyper::body::Incoming>, hyper::Error>> + Send>>;

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        // HTTP/2 needs an authority; the stream leads to one agent only, so any name does.
        let mut parts = request.uri().clone().into_parts();
        parts.scheme = Some(http::uri::Scheme::HTTP);
        parts.authority = Some(http::uri::Authority::from_static("agent"));
        if let Ok(uri) = http::Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        Box::pin(self.sender.send_request(request))
    }
}
