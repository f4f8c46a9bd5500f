//! Answers that go on for a while: events, and connections that become something else.

mod decoder;
mod events;
mod sockets;

pub(crate) use decoder::TextDecoder;
pub(crate) use events::{EventSource, ServerSentEvent, event, events, failed};
pub(crate) use sockets::{End, Heard, SocketReader, SocketRequest, SocketWriter, Sockets};
