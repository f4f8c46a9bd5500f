//! An agent that greets like any other, and then does one bad thing for every call.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{self, HeaderMap, HeaderValue, Request, Response, StatusCode};
use bytes::{BufMut, Bytes, BytesMut};
use emergent_agent_client::AgentStream;
use emergent_protocol::{FailureCode, v1};
use futures::{Stream, StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::AbortHandle;

use super::lies;

/// What the agent does instead of its work.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Behaviour {
    /// Says nothing, not even that it heard.
    Silent,
    /// Begins to answer and says no more.
    Begins,
    /// Bytes that are no message.
    Garbage,
    /// Messages whose texts are not UTF-8.
    NoText,
    /// Announces a message of this many bytes, and sends bytes as long as anybody takes them.
    Announces(u32),
    /// Ends in the middle of a message.
    BreaksOff,
    /// Messages without end, each of them fine and with nothing in it that anybody knows.
    Drips,
    /// Thousands of messages with nothing in them, and then no more.
    Nothings,
    /// Answers of the right shape, and every number and text in them is as odd as can be.
    Lies,
    /// A failure with odd texts.
    Fails,
    /// A page of HTML.
    NoGrpc,
    /// Closes the connection in the middle of the call.
    HangsUp,
    /// Takes the stream and says nothing from the beginning.
    NeverGreets,
    /// Speaks another protocol.
    NoHttp2,
    /// Speaks HTTP/2, and sends frames that cannot be.
    BrokenFrames,
}

impl Behaviour {
    /// Whether it begins before there is a call.
    fn is_of_the_stream(&self) -> bool {
        matches!(self, Self::NeverGreets | Self::NoHttp2 | Self::BrokenFrames)
    }
}

/// The agent of one workspace.
pub(super) struct Hostile {
    behaviour: Mutex<Behaviour>,
    connections: Mutex<Vec<AbortHandle>>,
    sent: AtomicU64,
}

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;
type Answer = Response<StreamBody<Frames>>;

/// How long it takes from one message without end to the next.
const DRIP: Duration = Duration::from_millis(50);

impl Hostile {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            behaviour: Mutex::new(Behaviour::Silent),
            connections: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// From now on it does this.
    pub(super) fn turn_to(&self, behaviour: Behaviour) {
        let is_of_the_stream = behaviour.is_of_the_stream();
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = behaviour;
        if is_of_the_stream {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            connections.drain(..).for_each(|connection| connection.abort());
        }
    }

    /// How many bytes it could get rid of, where it has as many as anybody takes.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn behaviour(&self) -> Behaviour {
        self.behaviour.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A new stream to it.
    pub(super) fn connect(self: &Arc<Self>) -> AgentStream {
        let (near, far) = tokio::io::duplex(256 << 10);
        let agent = self.clone();
        let connection = tokio::spawn(async move {
            let behaviour = agent.behaviour();
            match behaviour.is_of_the_stream() {
                true => drop(broken_stream(&behaviour, far).await),
                false => agent.serve(far).await,
            }
        });
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection.abort_handle());
        Box::new(near)
    }

    async fn serve(self: Arc<Self>, far: DuplexStream) {
        let (hang_up, mut hung_up) = tokio::sync::mpsc::channel::<()>(1);
        let service = service_fn(move |request: Request<Incoming>| {
            let (agent, hang_up) = (self.clone(), hang_up.clone());
            async move {
                match agent.answer(request.uri().path()).await {
                    Some(answer) => Ok::<_, Infallible>(answer),
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
    }

    async fn answer(self: &Arc<Self>, path: &str) -> Option<Answer> {
        let method = path.rsplit('/').next().unwrap_or_default();
        if method == "Hello" {
            let hello = v1::HelloResponse { generation: emergent_protocol::GENERATION, ..Default::default() };
            return Some(said([hello.encode_to_vec()]));
        }
        let counted = self.clone();
        let count = move |bytes: Bytes| {
            counted.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(Frame::data(bytes))
        };
        Some(match self.behaviour() {
            Behaviour::Silent => std::future::pending().await,
            Behaviour::Begins => grpc(stream::pending().boxed()),
            Behaviour::Garbage => said([vec![0xff; 64]]),
            Behaviour::NoText => said(lies::without_text(method)),
            Behaviour::Announces(length) => {
                let mut head = BytesMut::new();
                head.put_u8(0);
                head.put_u32(length);
                let more = stream::repeat(Bytes::from(vec![0; 16 << 10]));
                grpc(stream::iter([head.freeze()]).chain(more).map(count).boxed())
            }
            Behaviour::BreaksOff => {
                grpc(stream::iter([Ok(Frame::data(Bytes::from_static(&[0, 0, 0, 9, 9, 1])))]).boxed())
            }
            Behaviour::Drips => {
                // A field that nobody knows, so it is a message of any kind.
                let mut message = vec![0xc2, 0x3e, 0x80, 0x40];
                message.extend([b'x'; 8 << 10]);
                let drops = stream::repeat(framed(&message)).then(|drop| async move {
                    tokio::time::sleep(DRIP).await;
                    drop
                });
                grpc(drops.map(count).boxed())
            }
            Behaviour::Nothings => {
                let nothings = stream::repeat(framed(&[])).take(5000).map(|frame| Ok(Frame::data(frame)));
                grpc(nothings.chain(stream::pending()).boxed())
            }
            Behaviour::Lies => said(lies::of(method)),
            Behaviour::Fails => {
                let failed = FailureCode::FileNotFound.status(lies::failure()).into_http::<()>();
                let (parts, ()) = failed.into_parts();
                Response::from_parts(parts, StreamBody::new(stream::empty().boxed()))
            }
            Behaviour::NoGrpc => {
                let page = stream::iter([Ok(Frame::data(Bytes::from_static(b"<html>502</html>")))]);
                let mut answer = grpc(page.boxed());
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
                    .headers_mut()
                    .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
                answer
            }
            // Those of the stream are met by whoever dials next.
            Behaviour::HangsUp | Behaviour::NeverGreets | Behaviour::NoHttp2 | Behaviour::BrokenFrames => {
                return None;
            }
        })
    }
}

/// Ends when the server has had enough and closes.
async fn broken_stream(behaviour: &Behaviour, mut far: DuplexStream) -> std::io::Result<()> {
    match behaviour {
        Behaviour::NoHttp2 => loop {
            far.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\0\xff\xfe").await?;
        },
        Behaviour::BrokenFrames => {
            // Settings, as is due, and then a frame of sixteen mebibytes for a call that is not.
            far.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
            far.write_all(&[0xff, 0xff, 0xff, 0, 0, 0x7f, 0xff, 0xff, 0xff]).await?;
        }
        _ => {}
    }
    let mut heard = vec![0; 16 << 10];
    while far.read(&mut heard).await? > 0 {}
    Ok(())
}

fn grpc(body: Frames) -> Answer {
    let mut answer = Response::new(StreamBody::new(body));
    let kind = HeaderValue::from_static("application/grpc");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    answer
}

/// Messages, and the word that all is well.
fn said(messages: impl IntoIterator<Item = Vec<u8>>) -> Answer {
    let messages: Vec<_> = messages.into_iter().map(|message| Ok(Frame::data(framed(&message)))).collect();
    let trailers =
        HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    grpc(stream::iter(messages).chain(stream::iter([Ok(Frame::trailers(trailers))])).boxed())
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}
