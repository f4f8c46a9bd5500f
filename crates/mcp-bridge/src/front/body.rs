use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use http_body::{Body, Frame, SizeHint};

use crate::RawJson;

/// A comment: readers of events skip it, and what sits between sees that the stream lives.
const ALIVE: &[u8] = b":\n\n";

/// The body of a response: whole, or events as they come.
pub struct FrontBody(Kind);

enum Kind {
    Whole(Bytes),
    Events(BoxStream<'static, Bytes>),
}

impl FrontBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(bytes.into()))
    }

    /// Events, with a sign of life whenever there are none for so long.
    pub(super) fn events(events: impl Stream<Item = Bytes> + Send + 'static, keep_alive: Duration) -> Self {
        let lively = stream::unfold(events.boxed(), move |mut events| async move {
            match tokio::time::timeout(keep_alive, events.next()).await {
                Ok(event) => event.map(|event| (event, events)),
                Err(_) => Some((Bytes::from_static(ALIVE), events)),
            }
        });
        Self(Kind::Events(lively.boxed()))
    }

    /// Whether it is a stream of events.
    pub fn is_events(&self) -> bool {
        matches!(self.0, Kind::Events(_))
    }
}

impl Body for FrontBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Events(events) => {
                events.poll_next_unpin(context).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for FrontBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_events() { "FrontBody(events)" } else { "FrontBody(whole)" })
    }
}

/// A message as an event.
pub(super) fn event(id: Option<&str>, message: &RawJson) -> Bytes {
    let text = message.as_str();
    let mut out = String::with_capacity(text.len() + 48);
    if let Some(id) = id {
        out.push_str("id: ");
        out.push_str(id);
        out.push('\n');
    }
    out.push_str("event: message\n");
    // Line ends are white space in JSON, and each line of an event has its own name.
    for line in text.split(['\r', '\n']) {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
    Bytes::from(out)
}

/// The event without a message that starts a stream, so that there is an id to come back with.
pub(super) fn primer(id: &str) -> Bytes {
    Bytes::from(format!("id: {id}\nretry: 1000\ndata: \n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_in_a_message_do_not_end_its_event() {
        let message = RawJson::known("{\r\n\"a\":1}".to_owned());
        let text = event(Some("1-2"), &message);
        assert_eq!(text, "id: 1-2\nevent: message\ndata: {\ndata: \ndata: \"a\":1}\n\n");
    }
}
