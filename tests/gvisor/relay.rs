//! The byte stream to an agent: the standard input and output of one `docker exec`.
//!
//! A daemon may forget a container before it has noticed that a program in it ended; the
//! client of that program then waits for ever. So whoever ends a container also says so here.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A relay inside a sandbox, and the client that carries its bytes. Dropped, the client ends,
/// the relay sees the end of its input, and so does the agent.
pub(crate) struct Relay {
    bytes: Join<ChildStdout, ChildStdin>,
    sandbox_ended: Pin<Box<WaitForCancellationFutureOwned>>,
    // Ends with the stream: it was made to.
    _client: Child,
}

impl Relay {
    /// Starts a command whose standard input and output are pipes to the agent. The stream
    /// ends with the command, or when the sandbox has.
    pub(crate) fn start(mut command: Command, sandbox_ended: CancellationToken) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.kill_on_drop(true).spawn()?;
        let missing = || io::Error::other("a pipe that was asked for is missing");
        let stdout = client.stdout.take().ok_or_else(missing)?;
        let stdin = client.stdin.take().ok_or_else(missing)?;
        Ok(Self {
            bytes: tokio::io::join(stdout, stdin),
            sandbox_ended: Box::pin(sandbox_ended.cancelled_owned()),
            _client: client,
        })
    }
}

impl AsyncRead for Relay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.sandbox_ended.as_mut().poll(context) {
            // Nothing was read, which is how a reader is told of the end.
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut self.bytes).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Relay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(context)
    }
}
