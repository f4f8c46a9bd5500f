//! Ports of the sandbox, and services of the server inside it.

use std::time::Duration;

use bytes::Bytes;
use emergent_test_support::eventually;
use serde_json::json;

use crate::api::Api;

/// Answers with what it got once it has got everything, in capitals.
const SERVER: &str = "import socket
listener = socket.create_server(('127.0.0.1', 4567))
while True:
    connection, _ = listener.accept()
    data = b''
    while piece := connection.recv(65536):
        data += piece
    connection.sendall(data.upper())
    connection.close()
";

#[tokio::test]
async fn a_port_of_the_sandbox_can_be_reached() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    let Err(error) = client.tunnel(workspace.id, 4567).await else { panic!("nobody listens") };
    assert_eq!(error.code(), Some("port_closed"), "{error}");
    workspace.post("/write", json!({"path": "server.py", "content": SERVER})).await;
    workspace.post("/bash", json!({"command": "python3 server.py", "background": true})).await;
    let ((mut reader, mut writer), _) = eventually("it listens", Duration::from_secs(15), async || {
        client.tunnel(workspace.id, 4567).await.ok()
    })
    .await;
    for _ in 0..64 {
        writer.send(Bytes::from(vec![b'a'; 64 << 10])).await.unwrap();
    }
    writer.end().await.unwrap();
    let mut got = 0;
    while let Some(bytes) = reader.next().await.unwrap() {
        assert!(bytes.iter().all(|byte| *byte == b'A'));
        got += bytes.len();
    }
    assert_eq!(got, 4 << 20, "after its own end, the client still hears everything");

    assert_eq!(api.get(&workspace.path("/tunnel/4567")).await.failure(), (426, "upgrade_required"));
    for port in ["0", "65536", "x", "-1", "+80"] {
        let answer = api.get(&workspace.path(&format!("/tunnel/{port}"))).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!("port")),
            "{port}"
        );
    }
    api.finish().await;
}

/// Nothing listens on the host, and the server knows who speaks from the stream alone.
#[tokio::test]
async fn a_service_of_the_server_can_be_reached_from_inside() {
    let api = Api::start().await;
    let workspace = api.create_with(json!({"ttl_seconds": 3600})).await;
    let ask = "curl -sS --max-time 10 --unix-socket /run/emergent/services/emergent";
    let (answer, _) = eventually("it is offered", Duration::from_secs(15), async || {
        let answer = workspace.post("/bash", json!({"command": format!("{ask} http://emergent/")})).await;
        (answer.body["exit_code"] == 0).then(|| answer.body["stdout"].as_str().unwrap().to_owned())
    })
    .await;
    let info: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let row = workspace.get().await.body;
    assert_eq!(info["workspace_id"], row["id"]);
    assert_eq!(info["resource_limits"], row["resource_limits"]);
    assert!(info["expires_at"].is_string(), "{info}");
    assert!(workspace.sh(&format!("{ask} http://emergent/other")).await.contains("not_found"));

    // One who asks for one answer gets it whole before the connection ends, however it asks.
    for options in ["--http1.0", "-H 'Connection: close'"] {
        let asked = format!("for i in $(seq 20); do {ask} {options} http://emergent/ || exit 1; echo; done");
        let answers = workspace.sh(&asked).await;
        assert_eq!(answers.matches("workspace_id").count(), 20, "{options}: {answers}");
    }
    let half_closed = "python3 -c 'import socket
s = socket.socket(socket.AF_UNIX); s.connect(\"/run/emergent/services/emergent\")
s.sendall(b\"GET / HTTP/1.1\\r\\nHost: emergent\\r\\n\\r\\n\"); s.shutdown(socket.SHUT_WR)
while piece := s.recv(65536): print(piece.decode(), end=\"\")'";
    assert!(workspace.sh(half_closed).await.contains("workspace_id"), "it may end its own direction first");

    // As many as like at once, and nonsense, hurt nobody.
    let many = format!(
        "for i in $(seq 40); do {ask} http://emergent/ > /tmp/out.$i & done; wait; cat /tmp/out.* | grep -o workspace_id | wc -l"
    );
    assert_eq!(workspace.sh(&many).await, "40\n");
    let nonsense = format!(
        "head -c 100000 /dev/urandom | timeout 5 python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(\"/run/emergent/services/emergent\")
try: s.sendall(sys.stdin.buffer.read()); s.recv(10)
except OSError: pass'; {ask} http://emergent/"
    );
    assert!(workspace.sh(&nonsense).await.contains("workspace_id"));

    // It is there again after the sandbox was started again.
    workspace.post("/stop", json!({})).await;
    workspace.post("/resume", json!({})).await;
    eventually("it is offered again", Duration::from_secs(15), async || {
        let answer = workspace.post("/bash", json!({"command": format!("{ask} http://emergent/")})).await;
        (answer.body["exit_code"] == 0).then_some(())
    })
    .await;
    api.finish().await;
}
