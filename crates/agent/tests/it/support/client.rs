//! A plain client: the generated stub over one connection.

use std::collections::HashMap;
use std::future::Future;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use emergent_protocol::v1::agent_client::AgentClient;
use emergent_protocol::{FailureCode, GENERATION, KEY_LENGTH, http2, v1};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Status, Streaming};

/// The key of every agent in these tests.
pub(crate) const KEY: [u8; KEY_LENGTH] = [7; KEY_LENGTH];

/// One connection to an agent.
pub(crate) struct Client {
    pub(crate) stub: AgentClient<Transport>,
    /// What the connection runs over, to cut it.
    pub(crate) socket: Option<UnixStream>,
}

/// Why a call failed, in the words of the API.
pub(crate) type Failed = (FailureCode, v1::Failure);

/// What a failed call says.
pub(crate) fn failure(status: &Status) -> Failed {
    FailureCode::read(status).unwrap_or_else(|| panic!("no failure in {status:?}"))
}

/// Speaks HTTP/2 over a stream, with the windows of the protocol.
pub(crate) async fn connect(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Client {
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(http2::STREAM_WINDOW)
        .initial_connection_window_size(http2::CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .expect("an HTTP/2 peer");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Client { stub: AgentClient::new(Transport { sender }).max_decoding_message_size(8 << 20), socket: None }
}

pub(crate) fn hello() -> v1::HelloRequest {
    v1::HelloRequest {
        generation: GENERATION,
        key: KEY.to_vec().into(),
        environment: HashMap::new(),
        deadline_unix_ms: 0,
    }
}

impl Client {
    pub(crate) async fn greet(&mut self) {
        self.stub.hello(hello()).await.expect("the right key");
    }

    /// Breaks the connection as a dying control plane would.
    pub(crate) fn cut(self) {
        self.socket.expect("a socket of its own").shutdown(Shutdown::Both).expect("open");
    }

    /// A shell command to its end.
    pub(crate) async fn run(&mut self, text: &str) -> v1::Exited {
        self.exec(exec_request(text)).await.unwrap_or_else(|status| panic!("{text}: {status:?}"))
    }

    /// What a shell command prints, without the last line end.
    pub(crate) async fn sh(&mut self, text: &str) -> String {
        let exited = self.run(text).await;
        let error = text_of(exited.stderr.as_ref());
        assert_eq!(exited.exit.map(|exit| exit.code), Some(0), "{text}: {error}");
        text_of(exited.stdout.as_ref()).trim_end().to_owned()
    }

    pub(crate) async fn exec(&mut self, request: v1::ExecRequest) -> Result<v1::Exited, Status> {
        let mut events = self.stub.exec(request).await?.into_inner();
        finish(&mut events).await
    }

    pub(crate) async fn write(
        &mut self,
        path: &str,
        content: &[u8],
    ) -> Result<v1::WriteFileResponse, Status> {
        let parts = write_parts(v1::WriteFileHeader { path: path.to_owned(), ..Default::default() }, content);
        Ok(self.stub.write_file(tokio_stream::iter(parts)).await?.into_inner())
    }

    pub(crate) async fn read(&mut self, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, Status> {
        let request = v1::ReadFileRequest { path: path.to_owned(), offset, length };
        let mut chunks = self.stub.read_file(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        Ok(bytes)
    }

    pub(crate) async fn page(&mut self, path: &str) -> Result<v1::read_page_response::Content, Status> {
        let request = v1::ReadPageRequest { path: path.to_owned(), offset: 0, limit: 0 };
        Ok(self.stub.read_page(request).await?.into_inner().content.expect("content"))
    }
}

pub(crate) fn write_parts(header: v1::WriteFileHeader, content: &[u8]) -> Vec<v1::WriteFileRequest> {
    use v1::write_file_request::Part;
    let data = content.chunks(64 << 10).map(|chunk| Part::Data(chunk.to_vec().into()));
    let parts = std::iter::once(Part::Header(header)).chain(data);
    parts.map(|part| v1::WriteFileRequest { part: Some(part) }).collect()
}

pub(crate) fn shell(text: &str) -> v1::Command {
    v1::Command { program: Some(v1::command::Program::Shell(text.to_owned())), ..Default::default() }
}

pub(crate) fn exec_request(text: &str) -> v1::ExecRequest {
    v1::ExecRequest { command: Some(shell(text)), timeout_ms: 60_000, stream_output: false, capture_limit: 0 }
}

/// Reads events up to the last, which must be the end of the command.
pub(crate) async fn finish(events: &mut Streaming<v1::ExecEvent>) -> Result<v1::Exited, Status> {
    while let Some(event) = events.message().await? {
        if let Some(v1::exec_event::Event::Exited(exited)) = event.event {
            assert_eq!(events.message().await?, None, "something comes after the end");
            return Ok(exited);
        }
    }
    panic!("the stream ended before the command did");
}

pub(crate) fn text_of(capture: Option<&v1::Capture>) -> String {
    let capture = capture.expect("a capture");
    String::from_utf8_lossy(&[&capture.head[..], &capture.tail[..]].concat()).into_owned()
}

#[derive(Clone)]
pub(crate) struct Transport {
    sender: SendRequest<Body>,
}

type Answer =
    Pin<Box<dyn Future<Output = Result<http::Response<hyper::body::Incoming>, hyper::Error>> + Send>>;

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Answer {
        let path = request.uri().path().to_owned();
        *request.uri_mut() = format!("http://agent{path}").parse().expect("a URI");
        Box::pin(self.sender.send_request(request))
    }
}
