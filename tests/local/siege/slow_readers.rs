//! Clients that ask for much and read none of it.

use std::time::Duration;

use emergent_test_support::{Sandbox, eventually};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::field::Field;
use super::{HALF, SIEGE};
use crate::support::sh;

impl Field {
    /// Sends a request and never reads what comes back.
    async fn ask_and_never_read(&self, method: &str, rest: &str, headers: &str, body: &str) -> TcpStream {
        let address = self.server.url().strip_prefix("http://").unwrap();
        let mut connection = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{method} /api/v1/agent/workspaces/{}/{rest} HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer {}\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.besieger,
            self.server.token(),
            body.len()
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        connection
    }

    /// 20 of them: events, downloads and terminals.
    async fn slow_readers(&self) -> Vec<TcpStream> {
        let mut connections = Vec::new();
        for _ in 0..7 {
            let headers = "content-type: application/json\r\naccept: text/event-stream\r\n";
            let body = r#"{"command": "yes events"}"#;
            connections.push(self.ask_and_never_read("POST", "bash", headers, body).await);
            connections.push(self.ask_and_never_read("GET", "files?path=/workspace/large", "", "").await);
            let headers = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                           sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            connections
                .push(self.ask_and_never_read("GET", "terminal?command=yes%20shown", headers, "").await);
        }
        connections.truncate(20);
        connections
    }
}

#[tokio::test]
async fn readers_that_do_not_read_hold_up_nobody() {
    let field = Field::prepare(HALF).await;
    sh(&field.client, field.besieger, "truncate -s 4G large").await;
    let readers = field
        .during("20 readers that do not read", async {
            let readers = field.slow_readers().await;
            tokio::time::sleep(SIEGE).await;
            readers
        })
        .await;
    let besieger = || Sandbox::of(field.besieger);
    assert!(besieger().runs("yes events") && besieger().runs("yes shown"), "they were asked for");
    drop(readers);
    eventually("what they asked for ends with them", Duration::from_secs(15), async || {
        (!besieger().runs("yes events") && !besieger().runs("yes shown")).then_some(())
    })
    .await;
    field.end().await;
}
