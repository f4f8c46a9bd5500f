//! An agent that greets like any other, and then answers every call in one bad way.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use emergent_agent_client::{AgentClient, AgentDialer, AgentKey, AgentStream, DialError, Greeting};
use emergent_protocol::v1;
use emergent_types::WorkspaceId;
use futures::{Stream, StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;

/// What the agent does instead of its work.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    /// Says nothing, not even that it heard.
    Silent,
    /// Begins to answer and says no more.
    Begins,
    /// Answers that all is well, with nothing in it.
    Empty,
    /// Bytes that are no message.
    Garbage,
    /// Announces a message of this many bytes, and sends bytes as long as anybody takes them.
    Announces(u32),
    /// Ends in the middle of a message.
    BreaksOff,
    /// The same messages without end.
    Endless(Vec<Bytes>),
    /// These messages, and then all is well.
    Says(Vec<Bytes>),
    /// A failure as long as can be, of a code there is not.
    LongFailure,
    /// A page of HTML.
    NoGrpc,
    /// Closes the connection.
    HangsUp,
}

/// One agent, counting what it could get rid of.
pub(crate) struct Hostile {
    behaviour: Behaviour,
    sent: AtomicU64,
}

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

impl Hostile {
    pub(crate) fn client(behaviour: Behaviour) -> (AgentClient, Arc<Self>) {
        let agent = Arc::new(Self { behaviour, sent: AtomicU64::new(0) });
        let greeting = Greeting {
            key: AgentKey::derive(b"secret", WorkspaceId::generate()),
            environment: Default::default(),
            deadline_unix_ms: 0,
        };
        (AgentClient::new(Arc::new(Dialer(agent.clone())), greeting), agent)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    async fn answer(
        self: Arc<Self>,
        request: http::Request<Incoming>,
    ) -> Option<http::Response<StreamBody<Frames>>> {
        if request.uri().path().ends_with("/Hello") {
            let hello = v1::HelloResponse { generation: emergent_protocol::GENERATION, ..Default::default() };
            return Some(response(good(vec![framed(&hello.encode_to_vec())])));
        }
        let counted = self.clone();
        let count = move |bytes: Bytes| {
            counted.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(Frame::data(bytes))
        };
        let forever = |first: Vec<Bytes>, then: Bytes| {
            let frames = stream::iter(first).chain(stream::repeat(then)).map(count.clone());
            frames.boxed()
        };
        Some(match &self.behaviour {
            Behaviour::Silent => std::future::pending().await,
            Behaviour::HangsUp => return None,
            Behaviour::Begins => response(stream::pending().boxed()),
            Behaviour::Empty => response(good(Vec::new())),
            Behaviour::Garbage => response(good(vec![framed(&[0xff; 64])])),
            Behaviour::Announces(length) => {
                let mut header = BytesMut::new();
                header.put_u8(0);
                header.put_u32(*length);
                response(forever(vec![header.freeze()], Bytes::from(vec![0; 16 << 10])))
            }
            Behaviour::BreaksOff => {
                response(stream::iter([Ok(Frame::data(Bytes::from_static(&[0, 0, 0, 9, 9, 1])))]).boxed())
            }
            Behaviour::Endless(messages) => {
                let frames = messages.iter().map(|message| framed(message)).collect::<Vec<_>>();
                response(stream::iter(frames).cycle().map(count).boxed())
            }
            Behaviour::Says(messages) => {
                response(good(messages.iter().map(|message| framed(message)).collect()))
            }
            Behaviour::LongFailure => {
                let text = "x".repeat(10 << 10);
                let mut response = response(stream::empty().boxed());
                let headers = response.headers_mut();
                headers.insert("grpc-status", "77".parse().expect("a value"));
                headers.insert("grpc-message", text.parse().expect("a value"));
                response
            }
            Behaviour::NoGrpc => {
                let page = stream::iter([Ok(Frame::data(Bytes::from_static(b"<html>502</html>")))]);
                let mut response = response(page.boxed());
                *response.status_mut() = http::StatusCode::BAD_GATEWAY;
                response.headers_mut().insert("content-type", "text/html".parse().expect("a value"));
                response
            }
        })
    }
}

fn response(body: Frames) -> http::Response<StreamBody<Frames>> {
    let response = http::Response::builder().header("content-type", "application/grpc");
    response.body(StreamBody::new(body)).expect("a response")
}

/// Messages, and the word that all is well.
fn good(messages: Vec<Bytes>) -> Frames {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().expect("a value"));
    let messages = stream::iter(messages).map(|message| Ok(Frame::data(message)));
    messages.chain(stream::iter([Ok(Frame::trailers(trailers))])).boxed()
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("short"));
    frame.put_slice(message);
    frame.freeze()
}

struct Dialer(Arc<Hostile>);

#[async_trait]
impl AgentDialer for Dialer {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        let (near, far) = tokio::io::duplex(256 << 10);
        let agent = self.0.clone();
        tokio::spawn(async move {
            let (hang_up, mut hung_up) = tokio::sync::mpsc::channel::<()>(1);
            let service = service_fn(move |request| {
                let (agent, hang_up) = (agent.clone(), hang_up.clone());
                async move {
                    match agent.answer(request).await {
                        Some(response) => Ok::<_, Infallible>(response),
                        None => {
                            let _ = hang_up.send(()).await;
                            std::future::pending().await
                        }
                    }
                }
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(far), service);
            tokio::select! {
                _ = serving => {}
                _ = hung_up.recv() => {}
            }
        });
        Ok(Box::new(near))
    }
}

/// Longer than any call may take together with its streams.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(3600);
