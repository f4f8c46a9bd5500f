//! A body that ends when the token it was asked with does.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::Caller;

/// Breaks the body off when the caller's token is revoked or its time is over. What is already
/// whole is left as it is. `held` is dropped with the body.
pub(super) fn end_with(body: Body, caller: Caller, held: impl Send + 'static) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let ended = Box::pin(async move { caller.ended().await });
    Body::new(BoundedLife { body: body.boxed_unsync(), ended, _held: Box::new(held) })
}

/// The token that was used is not valid any more.
#[derive(Debug, thiserror::Error)]
#[error("the token was revoked, or its time is over")]
struct TokenEnded;

struct BoundedLife {
    body: http_body_util::combinators::UnsyncBoxBody<Bytes, axum::Error>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    _held: Box<dyn std::any::Any + Send>,
}

impl HttpBody for BoundedLife {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            // The rest is dropped with everything it holds on to.
            self.body = http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync();
            self.ended = Box::pin(std::future::pending());
            return Poll::Ready(Some(Err(axum::Error::new(TokenEnded))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
