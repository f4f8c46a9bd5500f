//! The byte stream to an agent: two pipes, whose other ends are a process's standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::streams::Relay;

/// As much as a frame of HTTP/2 carries.
const FIRST_READ: usize = 16 << 10;

/// A byte stream over a process's standard input and output.
pub(super) struct PipeStream {
    input: ChildStdin,
    output: ChildStdout,
    /// Read and not yet asked for.
    pending: Bytes,
    sandbox_ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Who brought the pipes and ends with them; `None` where somebody in the sandbox has them.
    _process: Option<Child>,
    _relay: Option<Relay>,
}

impl PipeStream {
    pub(super) fn new(
        input: ChildStdin,
        output: ChildStdout,
        process: Option<Child>,
        sandbox_ended: CancellationToken,
    ) -> Self {
        Self {
            input,
            output,
            pending: Bytes::new(),
            sandbox_ended: Box::pin(sandbox_ended.cancelled_owned()),
            _process: process,
            _relay: None,
        }
    }

    /// The same, counted as running over a relay.
    pub(super) fn over(self, relay: Relay) -> Self {
        Self { _relay: Some(relay), ..self }
    }

    /// Waits for the first bytes and keeps them. `false` when the process ended without any.
    pub(super) async fn speaks(&mut self) -> io::Result<bool> {
        let mut first = vec![0; FIRST_READ];
        let read = tokio::select! {
            read = self.output.read(&mut first) => read?,
            () = &mut self.sandbox_ended => 0,
        };
        first.truncate(read);
        self.pending = first.into();
        Ok(read > 0)
    }
}

impl AsyncRead for PipeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.pending.is_empty() {
            let length = self.pending.len().min(buffer.remaining());
            buffer.put_slice(self.pending.get(..length).unwrap_or_default());
            self.pending.advance(length);
            return Poll::Ready(Ok(()));
        }
        if self.sandbox_ended.as_mut().poll(context).is_ready() {
            // Nothing read is how a reader is told of the end.
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.output).poll_read(context, buffer))?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}
