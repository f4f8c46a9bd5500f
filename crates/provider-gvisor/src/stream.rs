//! The byte stream to an agent: standard input and output of a process that Docker holds on to.
//! Either init's own, for the first connection, or those of a relay that Docker starts beside it.
//!
//! A daemon may forget a container before it has noticed that a process in it ended, and whoever
//! listens then waits for ever. So whoever ends a container says so here as well.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bollard::container::LogOutput;
use bytes::{Buf, Bytes};
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::streams::Relay;

/// How init begins to say that it starts another agent.
const AGENT_ENDED: &[u8] = b"emergent-agent: the agent ended";

/// What comes out, piece by piece.
pub(crate) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;
pub(crate) type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// A byte stream over a process's standard input and output.
pub(crate) struct ProcessStream {
    output: Output,
    input: Input,
    /// Read and not yet asked for.
    pending: Bytes,
    sandbox_ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// `None`: these are init's own streams, which outlive the agent.
    relay: Option<Relay>,
}

impl ProcessStream {
    pub(crate) fn new(output: Output, input: Input, sandbox_ended: CancellationToken) -> Self {
        Self {
            output,
            input,
            pending: Bytes::new(),
            sandbox_ended: Box::pin(sandbox_ended.cancelled_owned()),
            relay: None,
        }
    }

    /// The same, counted as running over a relay.
    pub(crate) fn over(self, relay: Relay) -> Self {
        Self { relay: Some(relay), ..self }
    }

    /// Waits for the first byte and keeps it. `false` when the process ended without one.
    pub(crate) async fn speaks(&mut self) -> io::Result<bool> {
        std::future::poll_fn(|context| self.poll_pending(context)).await
    }

    /// Whether there is something to be read; `false` at the end.
    fn poll_pending(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.pending.is_empty() {
            if self.sandbox_ended.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(false));
            }
            match ready!(self.output.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(false)),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                // What a relay or init complains of; the sandbox could have written it, about itself.
                Some(Ok(LogOutput::StdErr { message })) => {
                    if self.relay.is_none() && message.starts_with(AGENT_ENDED) {
                        // Another agent comes, which does not know this connection.
                        return Poll::Ready(Ok(false));
                    }
                    let text: String = String::from_utf8_lossy(&message).chars().take(200).collect();
                    tracing::debug!("a sandbox's agent says: {}", text.escape_debug());
                }
                Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                    self.pending = message;
                }
                Some(Ok(LogOutput::StdIn { .. })) => {}
            }
        }
        Poll::Ready(Ok(true))
    }
}

impl AsyncRead for ProcessStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if ready!(self.poll_pending(context))? {
            let length = self.pending.len().min(buffer.remaining());
            buffer.put_slice(self.pending.get(..length).unwrap_or_default());
            self.pending.advance(length);
        }
        // Nothing read is how a reader is told of the end.
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ProcessStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}
