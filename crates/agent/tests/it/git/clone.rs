//! Clones that do not come to their end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use emergent_protocol::{FailureCode, v1};
use tokio::net::TcpListener;
use v1::git_request::Action;

use crate::support::{Client, Sandbox, eventually, failure};

const URL: &str = "https://git.example/org/repo";

/// A service that takes every connection and says nothing.
async fn silence() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    port
}

fn request(port: u16, path: &str, reference: &str, seconds: u32) -> v1::GitRequest {
    let brokered = v1::GitBrokered { url: URL.to_owned(), path: "0".to_owned() };
    let clone = v1::GitCloneRequest {
        url: URL.to_owned(),
        r#ref: reference.to_owned(),
        depth: 1,
        clean: true,
        ..v1::GitCloneRequest::default()
    };
    v1::GitRequest {
        path: path.to_owned(),
        action: Some(Action::Clone(clone)),
        broker: Some(v1::GitBroker { port: port.into(), repositories: vec![brokered] }),
        time_limit_seconds: seconds,
        ..v1::GitRequest::default()
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

async fn start() -> (Sandbox, Client) {
    let sandbox = Sandbox::start();
    let client = sandbox.client().await;
    (sandbox, client)
}

/// Nothing is left when the answer comes: whoever hears it may begin to write there.
#[tokio::test]
async fn one_that_takes_too_long_leaves_nothing() {
    let (sandbox, mut client) = start().await;
    let port = silence().await;
    for reference in ["", "0123456789012345678901234567890123456789"] {
        fs::write(sandbox.workspace().join("left"), "over").expect("written");
        let refused = client.stub.git(request(port, "", reference, 1)).await.expect_err("too slow");
        assert_eq!(failure(&refused).0, FailureCode::GitFailed, "{refused:?}");
        assert!(refused.message().contains("did not end within 1s"), "{refused:?}");
        assert!(is_empty(sandbox.workspace()), "{reference:?}");
    }
    let refused = client.stub.git(request(port, "new", "", 1)).await.expect_err("too slow");
    assert_eq!(failure(&refused).0, FailureCode::GitFailed);
    assert!(!sandbox.workspace().join("new").exists());
}

#[tokio::test]
async fn one_that_nobody_waits_for_leaves_nothing_and_the_next_waits_for_that() {
    let (sandbox, mut client) = start().await;
    let port = silence().await;
    let id = "0123456789012345678901234567890123456789";
    let made = sandbox.workspace().join(".git/config");
    let waiting = tokio::time::timeout(Duration::from_secs(20), client.stub.git(request(port, "", id, 60)));
    let begun = eventually("it has begun", || std::future::ready(made.exists()));
    tokio::select! {
        answered = waiting => panic!("{answered:?}"),
        () = begun => {}
    }
    // The call is dropped, and with it what it has begun.
    let refused = client.stub.git(request(port, "", id, 1)).await.expect_err("too slow");
    assert_eq!(failure(&refused).0, FailureCode::GitFailed);
    assert!(is_empty(sandbox.workspace()));
}
