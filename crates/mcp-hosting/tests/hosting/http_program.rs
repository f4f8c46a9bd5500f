//! An MCP server over HTTP on a port of this machine, which programs in fake sandboxes share: what a program that
//! speaks HTTP itself would be.

use std::sync::{Arc, Mutex};

use emergent_mcp_bridge::front::{Front, FrontOptions, Principal};
use emergent_mcp_bridge::{Bridge, Options, ServerIo};
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

/// Who its clients are to the program.
const CLIENT: &str = "client";

#[derive(Clone)]
pub(crate) struct HttpProgram {
    pub(crate) port: u16,
    front: Front,
    /// The paths and headers it was asked with.
    pub(crate) asked: Arc<Mutex<Vec<(String, hyper::HeaderMap)>>>,
}

impl HttpProgram {
    /// Listens where somebody wants it to, or anywhere.
    pub(crate) async fn listen(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let program = Self {
            port: listener.local_addr().unwrap().port(),
            front: Front::new(Arc::new(echo()), FrontOptions::default()),
            asked: Arc::default(),
        };
        let serving = program.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let program = serving.clone();
                let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let program = program.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        program
                            .asked
                            .lock()
                            .unwrap()
                            .push((head.uri.path().to_owned(), head.headers.clone()));
                        let body = body.collect().await?.to_bytes();
                        let request = hyper::Request::from_parts(head, body);
                        Ok::<_, hyper::Error>(program.front.serve(Principal::new(CLIENT), request).await)
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
                );
            }
        });
        program
    }

    /// Forgets its sessions, as a program that was told to reload may.
    pub(crate) fn forget(&self) {
        self.front.end_sessions_of(&Principal::new(CLIENT));
    }

    pub(crate) fn sessions(&self) -> usize {
        self.front.sessions()
    }
}

/// A server with the tools `echo` and `secret`, of the older era.
fn echo() -> emergent_mcp_bridge::Handle {
    let (stdin, input) = tokio::io::duplex(1 << 16);
    let (mut output, stdout) = tokio::io::duplex(1 << 16);
    let (handle, _) = Bridge::start(Options::default(), ServerIo::new(stdin, stdout));
    tokio::spawn(async move {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let result = match message["method"].as_str() {
                Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "http", "version": "1"}}),
                Some("tools/list") => json!({"tools": [{"name": "echo"}, {"name": "secret"}]}),
                Some("tools/call") => {
                    let text = message["params"]["arguments"]["text"].as_str().unwrap_or("nothing");
                    json!({"content": [{"type": "text", "text": text}]})
                }
                Some("ping") => json!({}),
                _ => continue,
            };
            if message.get("id").is_some() {
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    });
    handle
}
