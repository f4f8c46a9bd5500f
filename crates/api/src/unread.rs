//! Requests that are answered before they have been read to their end.
//!
//! What is left of such a request stands between its answer and the next request, so the
//! connection closes. A client that is not told may have sent its next request by then, and does
//! not know what became of it; so it is told.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response};

/// Whether a body has been read to its end.
pub(crate) struct Reading(Arc<AtomicBool>);

/// Takes note of how far the body of a request is read.
pub(crate) fn note(request: Request<Incoming>) -> (Request<Body>, Reading) {
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let reading = Reading(Arc::clone(&ended));
    (request.map(|body| Body::new(Noted { body, ended })), reading)
}

impl Reading {
    /// Says in an answer that the connection closes, where it does.
    pub(crate) fn announce<B>(&self, answer: &mut Response<B>) {
        if !self.0.load(Ordering::Acquire) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

struct Noted {
    body: Incoming,
    ended: Arc<AtomicBool>,
}

impl HttpBody for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Release);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
