//! Disks that a server has left frozen, which was killed while it copied them. What it leaves, and when, is tried
//! out where disks are copied (`host-disk`).

use std::process::Command;
use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::ObservedState;
use emergent_types::WorkspaceId;

use crate::faults::Server;

/// More than anything takes that is not stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// Does what a server does while it copies.
fn freeze(server: &Server, id: WorkspaceId) {
    let disk = server.folder(id).join("disk");
    assert!(Command::new("fsfreeze").arg("--freeze").arg(disk).status().unwrap().success());
}

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| panic!("{what} is stuck"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_lets_it_go_on() {
    let first = Server::new();
    let sandbox = first.subject.sandbox().await;
    let id = sandbox.id();
    sandbox.sh("echo kept > file").await;
    freeze(&first, id);
    let second = first.again();
    drop(first);
    assert_eq!(in_time("list", second.state(id)).await, Some(ObservedState::Running));
    let client = second.subject.client(&sandbox.spec);
    let write = CommandSpec::shell("echo more >> file; cat file");
    let written = in_time("a write", client.exec(&write, ExecOptions::default())).await.unwrap();
    assert_eq!(written.stdout.to_text(), "kept\nmore\n");
    second.provider().destroy(id).await.unwrap();
    second.has_left_nothing().await;
}

/// What waits for a frozen disk cannot be ended before it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_destroyed_by_a_server_that_has_not_looked_around() {
    let first = Server::new();
    let sandbox = first.subject.sandbox().await;
    let id = sandbox.id();
    freeze(&first, id);
    let stuck = CommandSpec::shell("echo x > stuck");
    let waiting = sandbox.client.clone();
    let writer = tokio::spawn(async move { waiting.exec(&stuck, ExecOptions::default()).await });
    // Usually it has come to the disk by then; nothing depends on it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let second = first.again();
    in_time("destroy", second.provider().destroy(id)).await.unwrap();
    let _ended = in_time("the writer", writer).await;
    second.has_left_nothing().await;
}
