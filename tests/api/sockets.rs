//! How WebSockets end that are not used as they should be.

use std::time::Duration;

use emergent_test_support::eventually;
use futures::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::api::{Api, WORKSPACES, Workspace};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn try_open(api: &Api, path: &str) -> Result<Socket, Error> {
    try_open_as(api, api.server.token(), path).await
}

async fn try_open_as(api: &Api, token: &str, path: &str) -> Result<Socket, Error> {
    let url = format!("{}{path}", api.server.url().replacen("http", "ws", 1));
    let mut request = url.into_client_request()?;
    let token = format!("Bearer {token}");
    request.headers_mut().insert("authorization", token.parse().unwrap());
    Ok(connect_async(request).await?.0)
}

/// The code of the server's last message, whatever came before it.
async fn closed_with(socket: &mut Socket) -> u16 {
    let ended = tokio::time::timeout(Duration::from_secs(15), async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return u16::from(frame.expect("there is a reason").code),
                Some(Ok(_)) => {}
                other => panic!("ended without a word: {other:?}"),
            }
        }
    });
    ended.await.expect("it ends")
}

/// A terminal, and a tunnel to somebody who listens.
async fn paths(workspace: &Workspace<'_>) -> [String; 2] {
    let listen =
        "python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 4567)); time.sleep(1000)'";
    workspace.post("/bash", json!({"command": listen, "background": true})).await;
    [workspace.path("/terminal?command=cat"), workspace.path("/tunnel/4567")]
}

#[tokio::test]
async fn what_is_too_long_or_makes_no_sense_closes_with_the_code_that_fits() {
    let api = Api::start().await;
    let workspace = api.create().await;
    for path in paths(&workspace).await {
        // The port is not open at once.
        eventually("it opens", Duration::from_secs(10), async || try_open(&api, &path).await.ok()).await;
        let cases = [
            // Just over, and far over, in one frame or in several.
            (vec![Message::binary(vec![b'x'; (1 << 20) + 1])], 1009),
            (vec![Message::binary(vec![b'x'; 8 << 20])], 1009),
            (
                vec![
                    Message::Frame(Frame::message(vec![b'x'; 1 << 20], OpCode::Data(Data::Binary), false)),
                    Message::Frame(Frame::message(vec![b'x'; 1 << 20], OpCode::Data(Data::Continue), true)),
                ],
                1009,
            ),
            (vec![Message::Frame(Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true))], 1007),
            (vec![Message::Frame(Frame::message(vec![b'x'], OpCode::Data(Data::Continue), true))], 1002),
            (vec![Message::text("nonsense")], 1008),
            (vec![Message::text(r#"{"resize": {"columns": 0, "rows": 1}}"#)], 1008),
        ];
        for (messages, code) in cases {
            let mut socket = try_open(&api, &path).await.unwrap();
            for message in messages {
                // Whoever is refused in the middle of it may not get all of it out.
                let _ = socket.send(message).await;
            }
            assert_eq!(closed_with(&mut socket).await, code, "{path}");
        }
        // What is allowed is taken.
        let mut socket = try_open(&api, &path).await.unwrap();
        socket.send(Message::binary(vec![b'\n'; 1 << 20])).await.unwrap();
        socket.close(None).await.unwrap();
    }
    api.finish().await;
}

/// One token cannot take the places of others, least of all the administrator's; and whoever is refused has
/// run nothing.
#[tokio::test]
async fn one_token_leaves_places_for_others_and_runs_nothing_beyond_its_own() {
    /// As `docs/tools.md` says.
    const OF_ONE_TOKEN: usize = 96;

    let api = Api::start().await;
    let (_, user) = api.token(json!({"name": "greedy", "kind": "user"})).await;
    let (_, other) = api.token(json!({"name": "modest", "kind": "user"})).await;
    let mut own = Vec::new();
    for token in [&user, &other] {
        let small = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
        let made = api.call_as(token, Method::POST, WORKSPACES, Some(small)).await;
        assert_eq!(made.status, 201, "{}", made.body);
        own.push(format!("{WORKSPACES}/{}", made.body["id"].as_str().unwrap()));
    }
    let listen =
        "import socket, time; s = socket.create_server((\"127.0.0.1\", 4567), backlog=500); time.sleep(1000)";
    let listen = json!({"command": format!("python3 -c '{listen}'"), "background": true});
    assert_eq!(api.call_as(&user, Method::POST, &format!("{}/bash", own[0]), Some(listen)).await.status, 200);
    let tunnel = format!("{}/tunnel/4567", own[0]);
    let (first, _) = eventually("it listens", Duration::from_secs(10), async || {
        try_open_as(&api, &user, &tunnel).await.ok()
    })
    .await;
    let mut open = vec![first];
    while open.len() < OF_ONE_TOKEN {
        open.push(try_open_as(&api, &user, &tunnel).await.unwrap());
    }
    let terminal = |of: &str| format!("{of}/terminal?command=touch%20/workspace/ran;sleep%20100");
    for path in [terminal(&own[0]), tunnel.clone()] {
        let Err(Error::Http(refused)) = try_open_as(&api, &user, &path).await else {
            panic!("{path} opened")
        };
        assert_eq!(refused.status(), 429, "{path}");
        assert!(refused.headers().contains_key("retry-after"), "{path}");
        let body = String::from_utf8(refused.body().clone().unwrap_or_default()).unwrap();
        assert!(body.contains("too_many"), "{body}");
    }
    let seen = json!({"command": "ls -A /workspace"});
    let seen = api.call_as(&user, Method::POST, &format!("{}/bash", own[0]), Some(seen)).await;
    assert_eq!(seen.body["stdout"], "", "nothing was run");
    let theirs = try_open_as(&api, &other, &terminal(&own[1])).await.unwrap();
    let administrators = try_open(&api, &tunnel).await.unwrap();
    drop(open.pop());
    eventually("a place is free again", Duration::from_secs(20), async || {
        try_open_as(&api, &user, &tunnel).await.ok()
    })
    .await;
    drop((open, theirs, administrators));
    api.finish().await;
}
