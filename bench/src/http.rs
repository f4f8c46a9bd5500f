//! One HTTP connection that stays open, with as little around it as possible: what is to be
//! measured is the server, not its client.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// No call of the benchmark takes this long unless something is broken.
const LIMIT: Duration = Duration::from_secs(120);

/// Where a server is and how to be let in.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// An open connection.
pub(crate) struct Connection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
}

/// What a server said.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The answer as JSON, if it is a success.
    pub(crate) fn json(&self) -> Result<Value> {
        let text = String::from_utf8_lossy(&self.body);
        anyhow::ensure!(self.status.is_success(), "the server answered {}: {text}", self.status);
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {text}"))
    }
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let stream =
            TcpStream::connect(endpoint.address).await.context("the server does not accept connections")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the connection; how it ends shows in the call that is under way.
        tokio::spawn(connection);
        Ok(Self { endpoint: endpoint.clone(), sender })
    }

    /// Sends bytes, and gives the answer.
    pub(crate) async fn put(&mut self, path: &str, content: Bytes) -> Result<Answer> {
        let request = self.request(Method::PUT, path).body(Full::new(content))?;
        let response = self.sender.send_request(request).await?;
        Ok(Answer { status: response.status(), body: response.into_body().collect().await?.to_bytes() })
    }

    /// Takes bytes and throws them away. Gives how many there were.
    pub(crate) async fn drain(&mut self, path: &str) -> Result<u64> {
        let response =
            self.sender.send_request(self.request(Method::GET, path).body(Full::default())?).await?;
        anyhow::ensure!(response.status().is_success(), "{path}: the server answered {}", response.status());
        let mut body = response.into_body();
        let mut total = 0;
        while let Some(frame) = body.frame().await {
            total += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(total)
    }

    /// Sends a request that was begun with [`request`](Self::request), and gives the head of the answer too.
    pub(crate) async fn exchange(
        &mut self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<http::Response<Bytes>> {
        let exchange = async {
            // A request that comes right after an answer finds the connection not yet free.
            self.sender.ready().await?;
            let (head, body) = self.sender.send_request(request.body(Full::new(body))?).await?.into_parts();
            Ok::<_, anyhow::Error>(http::Response::from_parts(head, body.collect().await?.to_bytes()))
        };
        tokio::time::timeout(LIMIT, exchange).await.with_context(|| format!("no answer within {LIMIT:?}"))?
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.endpoint.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", self.endpoint.token))
    }

    /// Makes one call, from the first byte sent to the last byte received.
    pub(crate) async fn call(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let what = format!("{method} {path}");
        let mut request = self.request(method, path);
        let body = match body {
            Some(json) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(serde_json::to_vec(json)?)
            }
            None => Bytes::new(),
        };
        let request = request.body(Full::new(body))?;
        let exchange = async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            Ok::<_, hyper::Error>(Answer { status, body })
        };
        tokio::time::timeout(LIMIT, exchange)
            .await
            .with_context(|| format!("{what}: no answer within {LIMIT:?}"))?
            .with_context(|| what)
    }
}
