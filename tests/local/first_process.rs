//! The server as the first process of a container: it leaves no zombies, and ends when it is told to.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use emergent_client::Client;
use emergent_test_support::{eventually, program_path};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{create, sh};

/// The children of a process.
fn children(pid: i32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[tokio::test]
async fn a_server_that_is_the_first_process_leaves_no_zombies() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut namespace = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child=KILL", "--"])
        .arg(program_path())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .env("WORKSPACE_WARM_POOL_SIZE", "0")
        .env("WORKSPACE_PROVIDERS", "local")
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(namespace.stdout.take().unwrap()).lines();
    let line = tokio::task::spawn_blocking(move || said.next().unwrap().unwrap()).await.unwrap();
    let url = line.strip_prefix("listening on ").unwrap();
    let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
    let client = Client::new(url, token.trim()).unwrap();
    for _ in 0..3 {
        let id = create(&client).await.id;
        assert_eq!(sh(&client, id, "echo up").await, "up\n");
        client.destroy(id).await.unwrap();
    }
    let first = children(i32::try_from(namespace.id()).unwrap())[0];
    eventually("nobody waits to be waited for", Duration::from_secs(5), async || {
        let left = children(first);
        assert!(!left.is_empty(), "the server runs");
        (!left.into_iter().any(is_zombie)).then_some(())
    })
    .await;
    kill_process(Pid::from_raw(first).unwrap(), Signal::TERM).unwrap();
    let ended = tokio::task::spawn_blocking(move || namespace.wait().unwrap()).await.unwrap();
    assert!(ended.success(), "{ended}: {}", std::fs::read_to_string(folder.path().join("log")).unwrap());
}
