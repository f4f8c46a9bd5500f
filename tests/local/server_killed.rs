//! `kill -9` of the server.

use std::collections::BTreeSet;
use std::time::Duration;

use emergent_client::{BashRequest, ListWorkspaces};
use emergent_test_support::{Sandbox, TestServer, eventually};
use emergent_types::WorkspaceStatus;

use crate::support::{create, sh, small};

/// Proves: RISK-DOWNTIME-3
#[tokio::test]
async fn ten_workspaces_answer_again_and_nothing_is_left_or_double() {
    let mut server = TestServer::start().await;
    let client = server.client();
    let mut ids = Vec::new();
    for number in 0..10 {
        let id = create(&client).await.id;
        sh(&client, id, &format!("echo {number} > number")).await;
        ids.push(id);
    }
    let background =
        client.bash_in_background(ids[1], &BashRequest::new("sleep 7654; echo done")).await.unwrap();
    // One command prints all the while.
    let printing = {
        let (client, id) = (client.clone(), ids[0]);
        tokio::spawn(async move { client.bash(id, &BashRequest::new("while :; do echo line; done")).await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = server.census();
    server.kill();
    assert!(printing.await.unwrap().is_err(), "whoever waited is told");

    server.start_again().await;
    let client = server.client();
    let listed = client.list(&ListWorkspaces::default()).await.unwrap().items;
    let found: BTreeSet<_> = listed.iter().map(|workspace| workspace.id).collect();
    assert_eq!(found, ids.iter().copied().collect());
    assert!(listed.iter().all(|workspace| workspace.status == WorkspaceStatus::Ready));
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(sh(&client, *id, "cat number").await, format!("{number}\n"));
    }
    let process = client.process(ids[1], background.process_id, 0, 0).await.unwrap();
    assert_eq!(process.process.status, "running", "what ran in the background goes on");
    eventually("the command that printed is killed", Duration::from_secs(10), async || {
        (!Sandbox::of(ids[0]).runs("echo line")).then_some(())
    })
    .await;
    let after = server.census();
    assert_eq!(after.state_folders, before.state_folders);
    assert_eq!(after.control_groups, before.control_groups);
    assert_eq!(after.loop_devices.len(), 10, "{after}");
    assert_eq!((after.mounts.len(), after.links.len()), (before.mounts.len(), before.links.len()));
    server.finish().await;
}

/// Whatever it was doing when it was killed, the next one leaves no half of it behind.
#[tokio::test]
async fn a_kill_in_the_middle_of_creates_leaks_nothing() {
    let mut server = TestServer::start().await;
    for pause in [1, 15, 40, 80, 160] {
        let client = server.client();
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.create(&small()).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.kill();
        let mut acknowledged = BTreeSet::new();
        for call in calls {
            if let Ok(workspace) = call.await.unwrap() {
                acknowledged.insert(workspace.id);
            }
        }
        server.start_again().await;
        let client = server.client();
        let (listed, _) = eventually("nothing is half made", Duration::from_secs(20), async || {
            let listed = client.list(&ListWorkspaces::default()).await.unwrap().items;
            listed.iter().all(|workspace| workspace.status == WorkspaceStatus::Ready).then_some(listed)
        })
        .await;
        let found: BTreeSet<_> = listed.iter().map(|workspace| workspace.id).collect();
        assert!(acknowledged.is_subset(&found), "what was acknowledged is there");
        for workspace in &listed {
            sh(&client, workspace.id, "true").await;
        }
        assert_eq!(server.census().state_folders.len(), listed.len(), "{}", server.census());
        for workspace in listed {
            client.destroy(workspace.id).await.unwrap();
        }
        let census = server.census();
        assert!(census.is_empty(), "{census}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_stop_or_a_destroy_is_carried_on() {
    let mut server = TestServer::start().await;
    for pause in [2, 20, 60] {
        let client = server.client();
        let (stopping, destroying) = (create(&client).await.id, create(&client).await.id);
        sh(&client, stopping, "echo kept > file; sync").await;
        let stop = tokio::spawn({
            let client = client.clone();
            async move { client.stop(stopping).await }
        });
        let destroy = tokio::spawn(async move { client.destroy(destroying).await });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.kill();
        let destroyed = destroy.await.unwrap().is_ok();
        let _ = stop.await.unwrap();

        server.start_again().await;
        let client = server.client();
        eventually("what was destroyed is gone", Duration::from_secs(20), async || {
            match client.workspace(destroying).await {
                Err(error) => (error.code() == Some("workspace_not_found")).then_some(()),
                // The request may not have arrived before the end.
                Ok(workspace) => (!destroyed && workspace.status == WorkspaceStatus::Ready).then_some(()),
            }
        })
        .await;
        let (status, _) = eventually("the other one is at rest", Duration::from_secs(20), async || {
            let status = client.workspace(stopping).await.unwrap().status;
            [WorkspaceStatus::Ready, WorkspaceStatus::Stopped].contains(&status).then_some(status)
        })
        .await;
        if status == WorkspaceStatus::Stopped {
            client.resume(stopping).await.unwrap();
        }
        assert_eq!(sh(&client, stopping, "cat file").await, "kept\n");
        for workspace in client.list(&ListWorkspaces::default()).await.unwrap().items {
            client.destroy(workspace.id).await.unwrap();
        }
        let census = server.census();
        assert!(census.is_empty(), "{census}");
    }
    server.finish().await;
}
