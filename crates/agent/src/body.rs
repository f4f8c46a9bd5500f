//! Request bodies that remember how they ended.
//!
//! tonic reads a cancelled request as one that has ended. For most calls that is as good; a
//! write that breaks off must not be taken for one that is complete.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Whether a request's body broke off. Travels with the request's extensions.
#[derive(Clone, Default)]
pub(crate) struct BrokenOff(Arc<AtomicBool>);

impl BrokenOff {
    /// Whether it did, as far as it has been read.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request's body.
pub(crate) struct Tracked {
    inner: Incoming,
    broken_off: BrokenOff,
}

impl Tracked {
    /// The same request with a tracked body.
    pub(crate) fn request(mut request: http::Request<Incoming>) -> http::Request<Self> {
        let broken_off = BrokenOff::default();
        request.extensions_mut().insert(broken_off.clone());
        request.map(|inner| Self { inner, broken_off })
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Err(_))) = polled {
            self.broken_off.0.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
