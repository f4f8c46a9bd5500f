//! Agents and sandboxes that die.

use std::time::Duration;

use emergent_client::{BashRequest, ClientError};
use emergent_test_support::{Sandbox, TestServer, eventually};
use emergent_types::{WorkspaceId, WorkspaceStatus};

use crate::support::{create, sh};

/// Calls until the workspace answers; whatever else comes meanwhile must say that the agent
/// cannot be reached, or that the workspace is not ready.
async fn answers_again(client: &emergent_client::Client, id: WorkspaceId) {
    eventually("it answers again", Duration::from_secs(15), async || {
        match client.bash(id, &BashRequest::new("echo fine")).await {
            Ok(answer) => {
                assert_eq!(answer.stdout, "fine\n");
                Some(())
            }
            Err(ClientError::Api(failure)) => {
                assert!([502, 409].contains(&failure.status), "{failure:?}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_dead_agent_is_replaced() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = create(&client).await.id;
    sh(&client, id, "echo kept > /tmp/file").await;
    let init = Sandbox::of(id).init();
    for _ in 0..3 {
        Sandbox::of(id).kill_agent();
        answers_again(&client, id).await;
        assert_eq!(sh(&client, id, "cat /tmp/file").await, "kept\n", "the sandbox is the same");
        assert_eq!(Sandbox::of(id).init(), init);
    }
    assert_eq!(client.workspace(id).await.unwrap().status, WorkspaceStatus::Ready);
    server.finish().await;
}

#[tokio::test]
async fn a_call_in_progress_is_told_when_its_agent_dies() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = create(&client).await.id;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.bash(id, &BashRequest::new("sleep 3456")).await }
    });
    eventually("it runs", Duration::from_secs(5), async || Sandbox::of(id).runs("sleep 3456").then_some(()))
        .await;
    Sandbox::of(id).kill_agent();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some("agent_unreachable"), "{error}");
    answers_again(&client, id).await;
    server.finish().await;
}

/// The kernel ends every process of a sandbox with its first one; the disk is still there.
#[tokio::test]
async fn a_lost_sandbox_is_made_again_around_its_disk() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = create(&client).await.id;
    sh(&client, id, "echo kept > /workspace/file; sync").await;
    let init = Sandbox::of(id).init();
    Sandbox::of(id).kill_init();
    answers_again(&client, id).await;
    assert_eq!(sh(&client, id, "cat /workspace/file").await, "kept\n");
    assert_ne!(Sandbox::of(id).init(), init);
    let workspace = client.workspace(id).await.unwrap();
    assert_eq!(workspace.status, WorkspaceStatus::Ready);
    assert!(workspace.warnings.iter().any(|warning| warning.contains("lost")), "{:?}", workspace.warnings);
    server.finish().await;
}

/// Nobody was there to notice; the next start does.
#[tokio::test]
async fn a_sandbox_lost_while_no_server_ran_is_made_again() {
    let mut server = TestServer::start().await;
    let client = server.client();
    let (lost, kept) = (create(&client).await.id, create(&client).await.id);
    sh(&client, lost, "echo kept > /workspace/file; sync").await;
    server.kill();
    Sandbox::of(lost).kill_init();
    server.start_again().await;
    let client = server.client();
    answers_again(&client, lost).await;
    assert_eq!(sh(&client, lost, "cat /workspace/file").await, "kept\n");
    answers_again(&client, kept).await;
    server.finish().await;
}

/// What cannot be repaired says so, and can be destroyed.
#[tokio::test]
async fn a_sandbox_without_its_disk_is_failed_with_the_reason() {
    let mut server = TestServer::start().await;
    let client = server.client();
    let id = create(&client).await.id;
    assert!(server.terminate().await.success());
    Sandbox::of(id).kill_init();
    std::fs::remove_dir_all(server.data_dir().join("local").join(id.to_string())).unwrap();
    server.start_again().await;
    let client = server.client();
    let (workspace, _) = eventually("it is failed", Duration::from_secs(15), async || {
        let workspace = client.workspace(id).await.unwrap();
        (workspace.status == WorkspaceStatus::Failed).then_some(workspace)
    })
    .await;
    assert!(workspace.error.is_some());
    let error = client.bash(id, &BashRequest::new("true")).await.unwrap_err();
    assert_eq!(error.code(), Some("workspace_not_ready"));
    client.destroy(id).await.unwrap();
    server.finish().await;
}
