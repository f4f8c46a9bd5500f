//! Requests whose head cannot be read: no endpoint sees them, and the answer is like every other.

use std::time::Duration;

use emergent_test_support::TestServer;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api::Api;

fn address(server: &TestServer) -> &str {
    server.url().strip_prefix("http://").unwrap()
}

/// Sends bytes, perhaps after some that were answered already, and reads to the connection's end.
async fn say(connection: &mut TcpStream, bytes: &[u8]) -> String {
    connection.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = connection.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("it is closed").unwrap();
    String::from_utf8(answer).unwrap()
}

fn check(answer: &str, status: &str, code: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    for header in ["content-type: application/json", "x-request-id: ", "connection: close"] {
        assert!(head.contains(header), "{header} in {answer}");
    }
    assert!(
        head.contains(&format!("content-length: {}\r\n", body.len()))
            || head.ends_with(&body.len().to_string())
    );
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(body["error"]["code"], code, "{answer}");
    assert!(body["error"]["message"].is_string() && body["error"]["details"].is_object(), "{answer}");
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_refused_like_everything_else() {
    let api = Api::start().await;
    let address = address(&api.server);
    let host = format!("host: {address}\r\n");
    let long_path = format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(66_000));
    let long_header = format!("GET /healthz HTTP/1.1\r\n{host}x: {}\r\n\r\n", "b".repeat(200_000));
    let many = (0..100).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    let many = format!("GET /healthz HTTP/1.1\r\n{host}{many}\r\n");
    let small = format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    for (request, status, code) in [
        (long_path.as_str(), "414", "uri_too_long"),
        (&long_header, "431", "head_too_large"),
        (&many, "431", "head_too_large"),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400", "invalid_request"),
        ("what is this\r\n\r\n", "400", "invalid_request"),
        ("GET /\u{1} HTTP/1.1\r\n\r\n", "400", "invalid_request"),
    ] {
        let mut connection = TcpStream::connect(address).await.unwrap();
        check(&say(&mut connection, request.as_bytes()).await, status, code);

        // Also on a connection on which others were answered before.
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(small.as_bytes()).await.unwrap();
        let mut first = [0; 4096];
        let read = connection.read(&mut first).await.unwrap();
        assert!(String::from_utf8_lossy(&first[..read]).contains("200 OK"));
        check(&say(&mut connection, request.as_bytes()).await, status, code);

        // And when both were sent at once.
        let mut connection = TcpStream::connect(address).await.unwrap();
        let both = say(&mut connection, format!("{small}{request}").as_bytes()).await;
        let second =
            both[1..].find("HTTP/1.1 ").map(|begin| &both[begin + 1..]).unwrap_or_else(|| panic!("{both}"));
        check(second, status, code);
    }
    assert_eq!(api.get("/healthz").await.status, 200);
    api.finish().await;
}

/// What looks like such an answer and is content stays as it is.
#[tokio::test]
async fn content_is_not_mistaken_for_an_answer() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let content =
        "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let write = serde_json::json!({"file_path": "trap", "content": content});
    assert_eq!(workspace.post("/write", write).await.status, 200);
    let address = address(&api.server);
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = |close: &str| {
        format!(
            "GET {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n{close}\r\n",
            workspace.path("/files?path=trap"),
            api.server.token()
        )
    };
    let twice = format!("{}{}", request(""), request("connection: close\r\n"));
    let answers = say(&mut connection, twice.as_bytes()).await;
    assert_eq!(answers.matches(content).count(), 2, "{answers}");
    assert_eq!(answers.matches("x-request-id").count(), 2, "{answers}");
    api.finish().await;
}
