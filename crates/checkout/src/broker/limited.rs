//! A body that is counted, and ends where there is too much of it or nothing comes for too long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use tokio::time::{Instant, Sleep};

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// There was more than is allowed.
    #[error("too much")]
    TooLarge,
    /// Nothing came for too long.
    #[error("nothing came for too long")]
    Silent,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
}

/// Any body.
pub(crate) type BoxedBody = BoxBody<Bytes, BodyError>;

/// Told of what happens to a body.
pub(super) trait Watcher: Send + Sync + Unpin + 'static {
    /// So many bytes have passed.
    fn passed(&mut self, bytes: u64);
    /// It has ended: whole, or because of this.
    fn ended(&mut self, error: Option<&BodyError>);
}

/// A body with limits.
pub(super) struct Limited<B, W> {
    inner: B,
    left: u64,
    silence: Duration,
    silent: Pin<Box<Sleep>>,
    watcher: W,
    has_ended: bool,
}

impl<B, W: Watcher> Limited<B, W> {
    pub(super) fn new(inner: B, limit: u64, silence: Duration, watcher: W) -> Self {
        let silent = Box::pin(tokio::time::sleep(silence));
        Self { inner, left: limit, silence, silent, watcher, has_ended: false }
    }

    fn end(&mut self, error: Option<BodyError>) -> Option<Result<Frame<Bytes>, BodyError>> {
        if !self.has_ended {
            self.has_ended = true;
            self.watcher.ended(error.as_ref());
        }
        error.map(Err)
    }
}

impl<B, W> Body for Limited<B, W>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
    W: Watcher,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(this.silent.as_mut().poll(context));
                return Poll::Ready(this.end(Some(BodyError::Silent)));
            }
        };
        this.silent.as_mut().reset(Instant::now() + this.silence);
        Poll::Ready(match frame {
            None => this.end(None),
            Some(Err(error)) => this.end(Some(error.into())),
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Buf::remaining) as u64;
                this.watcher.passed(bytes);
                match this.left.checked_sub(bytes) {
                    Some(left) => {
                        this.left = left;
                        // What knows its end is not asked again.
                        if this.inner.is_end_stream() {
                            this.end(None);
                        }
                        Some(Ok(frame))
                    }
                    None => this.end(Some(BodyError::TooLarge)),
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Counts, and nothing else.
pub(super) struct Counter(pub(super) Arc<AtomicU64>);

impl Watcher for Counter {
    fn passed(&mut self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn ended(&mut self, _: Option<&BodyError>) {}
}
