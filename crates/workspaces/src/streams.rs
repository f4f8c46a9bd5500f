//! Tool calls that go on: while their stream lives, the workspace is in use.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use emergent_agent_client::{
    AgentError, Change, FileStat, FileStream, OutputChunk, OutputFollower, ServiceOffer, ServiceRequest,
    StdioEvent, StdioInput, StdioOutput, StdioSpec, StreamKind, TerminalEvent, TerminalInput, TerminalOutput,
    TerminalSpec, TunnelStream, UploadError, WatchStream, Written,
};
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{ToolCall, ToolError};

/// A stream of a workspace. The workspace does not expire as long as this exists.
pub struct InUse<T> {
    inner: T,
    call: ToolCall,
}

impl<T> InUse<T> {
    /// What is held.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    fn checked<A>(call: &ToolCall, result: Result<A, AgentError>) -> Result<A, ToolError> {
        call.checked(result)
    }
}

macro_rules! items {
    ($($(#[$doc:meta])* $stream:ty => $item:ty;)+) => {
        $(impl InUse<$stream> {
            $(#[$doc])*
            pub async fn next(&mut self) -> Result<Option<$item>, ToolError> {
                Self::checked(&self.call, self.inner.next().await)
            }
        })+
    };
}

items! {
    /// The next change; `None` when what was watched is gone.
    WatchStream => Change;
    /// What happens next; `None` after the exit.
    TerminalOutput => TerminalEvent;
    /// What happens next; `None` after the exit.
    StdioOutput => StdioEvent;
    /// The next bytes; `None` at the end.
    FileStream => Bytes;
    /// The next piece; `None` when there is no more.
    OutputFollower => OutputChunk;
    /// The next connection; `None` when the offer has ended.
    ServiceOffer => ServiceRequest;
}

impl AsyncRead for InUse<TunnelStream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for InUse<TunnelStream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl ToolCall {
    fn hold<T>(self, result: Result<T, AgentError>) -> Result<InUse<T>, ToolError> {
        let inner = self.checked(result)?;
        Ok(InUse { inner, call: self })
    }

    /// What a background process prints, from `offset` on until it ends.
    pub async fn follow_process(
        self,
        process_id: u64,
        stream: StreamKind,
        offset: u64,
    ) -> Result<InUse<OutputFollower>, ToolError> {
        let follower = self.client.process_output(process_id, stream, offset, true).await;
        self.hold(follower)
    }

    /// Watches a folder or a file.
    pub async fn watch(self, path: &str, recursive: bool) -> Result<InUse<WatchStream>, ToolError> {
        let stream = self.client.watch(path, recursive).await;
        self.hold(stream)
    }

    /// Starts a command, or a login shell, on a terminal of its own. Dropping the output ends it.
    pub async fn terminal(
        self,
        spec: &TerminalSpec,
    ) -> Result<(TerminalInput, InUse<TerminalOutput>), ToolError> {
        let terminal = self.client.terminal(spec).await;
        let terminal = self.checked(terminal)?;
        Ok((terminal.input, InUse { inner: terminal.output, call: self }))
    }

    /// Starts a program that is spoken to through its standard streams. Dropping the output ends it.
    pub async fn stdio(self, spec: &StdioSpec) -> Result<(StdioInput, InUse<StdioOutput>), ToolError> {
        let stdio = self.client.stdio(spec).await;
        let stdio = self.checked(stdio)?;
        Ok((stdio.input, InUse { inner: stdio.output, call: self }))
    }

    /// Connects to a TCP port on the sandbox's loopback.
    pub async fn tunnel(self, port: u16) -> Result<InUse<TunnelStream>, ToolError> {
        let stream = self.client.tunnel(port).await;
        self.hold(stream)
    }

    /// Makes services reachable in the sandbox for as long as the offer lives. The workspace
    /// counts as used as long.
    pub async fn offer_services(self, names: &[&str]) -> Result<InUse<ServiceOffer>, ToolError> {
        let offer = self.client.offer_services(names).await;
        self.hold(offer)
    }

    /// A file's bytes, from `offset`, at most `length` (0: to the end).
    pub async fn read_file(
        self,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<InUse<FileStream>, ToolError> {
        let stream = self.client.read_file(path, offset, length).await;
        self.hold(stream)
    }

    /// What is known of what a path leads to, links followed.
    pub async fn stat(&self, path: &str) -> Result<FileStat, ToolError> {
        self.checked(self.client.stat_followed(path).await)
    }

    /// Replaces a file with what a stream brings; see
    /// [`write_stream`](emergent_agent_client::AgentClient::write_stream). However much that is, a
    /// disk whose limit is only watched is not written to beyond it.
    pub async fn write_stream<S, E>(
        &self,
        path: &str,
        mode: Option<u32>,
        size_hint: Option<u64>,
        source: S,
    ) -> Result<Written, WriteStreamError<E>>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Send + 'static,
    {
        self.check_room(path, size_hint.unwrap_or(0)).map_err(WriteStreamError::Tool)?;
        let mut room = self.room(path);
        let source = source.map(move |piece| {
            let piece = piece.map_err(WriteStreamError::Source)?;
            room.take(piece.len() as u64).map_err(WriteStreamError::Tool)?;
            Ok(piece)
        });
        match self.client.write_stream(path, mode, size_hint, source).await {
            Ok(written) => Ok(written),
            Err(UploadError::Agent(error)) => self.checked(Err(error)).map_err(WriteStreamError::Tool),
            Err(UploadError::Source(error)) => Err(error),
            Err(UploadError::Length { announced, got }) => Err(WriteStreamError::Length { announced, got }),
        }
    }
}

/// Why a file could not be written from a stream.
#[derive(Debug, thiserror::Error)]
pub enum WriteStreamError<E> {
    /// The tool call failed.
    #[error(transparent)]
    Tool(ToolError),
    /// The content could not be had.
    #[error("the content broke off")]
    Source(E),
    /// The content is not as long as was said.
    #[error("{got} bytes came, {announced} were announced")]
    Length {
        /// What was said.
        announced: u64,
        /// What came.
        got: u64,
    },
}
