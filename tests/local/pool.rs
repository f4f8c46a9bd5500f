//! Sandboxes that are made before anybody asks for them, for real.

use std::collections::BTreeSet;
use std::time::Duration;

use emergent_client::{BashRequest, Client, CreateWorkspace, RequestedLimits, WarmPool};
use emergent_test_support::{TestServer, TestServerOptions, eventually};
use emergent_types::{ByteSize, WorkspaceId};

use crate::support::{create, sh};

async fn pooled(size: u32) -> TestServer {
    TestServerOptions::default().with("WORKSPACE_WARM_POOL_SIZE", size).start().await
}

async fn until_ready(client: &Client, ready: u32) -> WarmPool {
    let (pool, _) = eventually("the pool is full", Duration::from_secs(60), async || {
        let pool = client.warm_pool().await.unwrap();
        (pool.ready == ready && pool.creating == 0).then_some(pool)
    })
    .await;
    pool
}

async fn default(client: &Client) -> WorkspaceId {
    client.create(&CreateWorkspace::default()).await.unwrap().id
}

/// Proves: LIFE-03, LIFE-20, RISK-POOL-1
#[tokio::test]
async fn a_create_takes_what_is_there_and_a_tidy_end_leaves_nothing() {
    let mut server = pooled(2).await;
    let client = server.client();
    until_ready(&client, 2).await;
    let request = CreateWorkspace {
        env: [("COLOUR".to_owned(), "green".to_owned())].into(),
        ..CreateWorkspace::default()
    };
    let made = client.create(&request).await.unwrap();
    assert_eq!(sh(&client, made.id, "echo $COLOUR; hostname; ls -A").await.lines().next(), Some("green"));
    let pool = until_ready(&client, 2).await;
    assert_eq!((pool.hits, pool.misses.values().sum::<u64>()), (1, 0));
    // Another shape is not served by it.
    create(&client).await;
    assert_eq!(client.warm_pool().await.unwrap().misses["shape"], 1);
    let listed = client.list(&Default::default()).await.unwrap().items;
    assert_eq!(listed.len(), 2, "members are nobody's");
    server.terminate().await;
    let census = server.census();
    assert_eq!(census.state_folders.len(), 2, "{census}");
    server.start_again().await;
    server.finish().await;
}

/// A member has the limits of the installation until somebody asks for others, and then really has those, also
/// when it is started again.
#[tokio::test]
async fn a_member_is_limited_to_what_was_asked_for() {
    let server = pooled(1).await;
    let client = server.client();
    until_ready(&client, 1).await;
    let memory = ByteSize::from_mib(256);
    let resource_limits = Some(RequestedLimits { cpu: None, memory: Some(memory), disk: None });
    let made =
        client.create(&CreateWorkspace { resource_limits, ..CreateWorkspace::default() }).await.unwrap();
    let pool = client.warm_pool().await.unwrap();
    assert_eq!((pool.hits, pool.misses.values().sum::<u64>()), (1, 0), "it was there before");
    assert_eq!(made.resource_limits.memory, memory);
    let allocate = |mib: u64| format!("python3 -c 'x = b\"x\" * ({mib} << 20); print(len(x))'");
    for round in ["handed out", "resumed"] {
        sh(&client, made.id, &allocate(128)).await;
        let killed = client.bash(made.id, &BashRequest::new(allocate(512))).await.unwrap();
        assert!(killed.exit_code != 0 && killed.oom_killed, "{round}: {killed:?}");
        let tmp = sh(&client, made.id, "df -k --output=size /tmp | tail -n 1").await;
        assert_eq!(tmp.trim(), (memory.bytes() / 2048).to_string(), "{round}");
        client.stop(made.id).await.unwrap();
        client.resume(made.id).await.unwrap();
    }
    server.finish().await;
}

/// Proves: LIFE-21
#[tokio::test]
async fn members_survive_a_kill_and_the_size_a_restart() {
    let mut server = pooled(1).await;
    let client = server.client();
    until_ready(&client, 1).await;
    client.resize_warm_pool(3).await.unwrap();
    until_ready(&client, 3).await;
    let before = server.census();
    server.kill();
    server.start_again().await;
    let client = server.client();
    until_ready(&client, 3).await;
    assert_eq!(server.census().state_folders, before.state_folders, "they are the same");
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        ids.insert(default(&client).await);
        assert_eq!(sh(&client, *ids.last().unwrap(), "echo up").await, "up\n");
    }
    assert_eq!(ids.len(), 3);
    assert!(client.warm_pool().await.unwrap().hits >= 1);
    client.resize_warm_pool(0).await.unwrap();
    until_ready(&client, 0).await;
    server.finish().await;
}

/// Copies, workspaces made from them, and forks.
#[tokio::test]
async fn snapshots_and_forks_over_the_wire() {
    let server = TestServer::start().await;
    let client = server.client();
    let origin = create(&client).await.id;
    sh(&client, origin, "echo one > file; ln -s file link").await;
    let snapshot = client.snapshot(origin, Some("first")).await.unwrap();
    sh(&client, origin, "echo two > file").await;
    let forks = client.fork(origin, 2).await.unwrap().items;
    let restored = {
        let output = server.command(&["workspace", "restore", "--quiet", &snapshot.id.to_string()]).await;
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout.trim().parse().unwrap()
    };
    assert_eq!(sh(&client, restored, "cat link").await, "one\n");
    for fork in &forks {
        assert_eq!(sh(&client, fork.id, "cat link").await, "two\n");
        assert_eq!(fork.resource_limits, client.workspace(origin).await.unwrap().resource_limits);
    }
    let destroyed = client.destroy_after_snapshot(origin).await.unwrap();
    let last = destroyed.snapshot_id.expect("there is one");
    let listed: Vec<_> = client.snapshots(None, None).await.unwrap().items.iter().map(|one| one.id).collect();
    assert_eq!(listed, [last, snapshot.id]);
    let output = server.command(&["snapshot", "list"]).await;
    assert!(output.stdout.contains("first"), "{output:?}");
    for id in listed {
        client.delete_snapshot(id).await.unwrap();
    }
    assert_eq!(client.snapshots(None, None).await.unwrap().items, []);
    server.finish().await;
}
