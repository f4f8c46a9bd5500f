//! Writing a file from a stream, in bounded memory.
//!
//! The content is asked for as fast as the agent takes it. A source that fails, or that ends
//! before or after its announced size, breaks the call off; the agent then leaves the old
//! content as it was.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use emergent_protocol::{CHUNK_BYTES, v1};
use futures::Stream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{AgentClient, AgentError, Written};

/// How long the agent may take for a chunk, and to put everything on the disk at the end.
const STALL_LIMIT: Duration = Duration::from_secs(120);

/// How often progress is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Why an upload failed.
#[derive(Debug, thiserror::Error)]
pub enum UploadError<E> {
    /// The sandbox's side failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
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

/// How an upload is doing.
struct Progress<S, E> {
    source: Pin<Box<S>>,
    /// Received from the source and not yet sent.
    rest: Bytes,
    announced: Option<u64>,
    got: u64,
    failure: Option<Failure<E>>,
    /// The agent asked last then; `None` while the source is waited for.
    asked: Option<Instant>,
    began: bool,
}

enum Failure<E> {
    Source(E),
    Length,
}

impl<S, E> Progress<S, E>
where
    S: Stream<Item = Result<Bytes, E>>,
{
    /// The next chunk, the clean end, or nothing ever again after a failure.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.rest.is_empty() {
            if self.failure.is_some() {
                return Poll::Pending;
            }
            self.asked = None;
            match self.source.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(data))) => {
                    self.got += data.len() as u64;
                    self.rest = data;
                    if self.announced.is_some_and(|announced| self.got > announced) {
                        self.failure = Some(Failure::Length);
                    }
                }
                Poll::Ready(Some(Err(error))) => self.failure = Some(Failure::Source(error)),
                Poll::Ready(None) if self.announced.is_some_and(|announced| self.got < announced) => {
                    self.failure = Some(Failure::Length);
                }
                Poll::Ready(None) => {
                    self.asked = Some(Instant::now());
                    return Poll::Ready(None);
                }
            }
        }
        if self.failure.is_some() {
            return Poll::Pending;
        }
        self.asked = Some(Instant::now());
        Poll::Ready(Some(self.rest.split_to(self.rest.len().min(CHUNK_BYTES))))
    }
}

/// The messages of one attempt. Attempts share the source: one that was not sent took nothing.
struct Feed<S, E> {
    header: Option<v1::WriteFileHeader>,
    progress: Arc<Mutex<Progress<S, E>>>,
    failed: Arc<Notify>,
}

impl<S, E> Stream for Feed<S, E>
where
    S: Stream<Item = Result<Bytes, E>>,
{
    type Item = v1::WriteFileRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        use v1::write_file_request::Part;
        let part = |part| Poll::Ready(Some(v1::WriteFileRequest { part: Some(part) }));
        if let Some(header) = self.header.take() {
            return part(Part::Header(header));
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.began = true;
        match progress.poll(context) {
            Poll::Ready(Some(data)) => part(Part::Data(data)),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                if progress.failure.is_some() {
                    self.failed.notify_one();
                }
                Poll::Pending
            }
        }
    }
}

impl AgentClient {
    /// Replaces a file atomically with what a stream brings. `mode` is for a new file. With a
    /// `size_hint` exactly so many bytes must come; without one the end of the stream is the end.
    /// Cancelling, or any failure, leaves the old content. How long the source may take is up
    /// to the source.
    pub async fn write_stream<S, E>(
        &self,
        path: &str,
        mode: Option<u32>,
        size_hint: Option<u64>,
        source: S,
    ) -> Result<Written, UploadError<E>>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Send + 'static,
    {
        let header = v1::WriteFileHeader {
            path: path.to_owned(),
            mode: mode.unwrap_or(0),
            size_hint: size_hint.unwrap_or(0),
            user: String::new(),
        };
        let progress = Arc::new(Mutex::new(Progress {
            source: Box::pin(source),
            rest: Bytes::new(),
            announced: size_hint,
            got: 0,
            failure: None,
            asked: Some(Instant::now()),
            began: false,
        }));
        let failed = Arc::new(Notify::new());
        let attempt = || {
            self.call_unbounded("write_file", |mut stub| {
                let feed =
                    Feed { header: Some(header.clone()), progress: progress.clone(), failed: failed.clone() };
                async move { stub.write_file(feed).await }
            })
        };
        let lock = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        let call = async {
            match attempt().await {
                Err(error) if error.is_not_sent() && !lock().began => attempt().await,
                result => result,
            }
        };
        let stalled = async {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                if lock().asked.is_some_and(|asked| asked.elapsed() > STALL_LIMIT) {
                    return;
                }
            }
        };
        // Dropping the call breaks it off.
        let answer = tokio::select! {
            answer = call => answer?,
            () = failed.notified() => {
                let mut progress = lock();
                return Err(match progress.failure.take() {
                    Some(Failure::Source(error)) => UploadError::Source(error),
                    _ => UploadError::Length {
                        announced: progress.announced.unwrap_or(progress.got),
                        got: progress.got,
                    },
                });
            }
            () = stalled => {
                return Err(AgentError::TimedOut { call: "write_file", limit: STALL_LIMIT }.into());
            }
        };
        let sent = lock().got;
        if answer.bytes_written != sent {
            let reason = format!("{} bytes written of {sent}", answer.bytes_written);
            return Err(AgentError::malformed("write_file", reason).into());
        }
        Ok(Written { bytes_written: answer.bytes_written, created: answer.created })
    }
}
