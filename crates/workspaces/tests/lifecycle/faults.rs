//! What goes wrong while a workspace runs.

use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::fake::Fault;
use emergent_provider::{Operation, WorkspaceProvider};
use emergent_types::{StopMode, WorkspaceStatus};

use crate::setup::{Installation, eventually};

/// A lost sandbox is resumed once around its disk, with a warning.
#[tokio::test]
async fn a_lost_sandbox_is_resumed_once() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    installation.provider.lose_sandbox(id).await;
    let call = installation.handle().tool(id).await.unwrap();
    call.exec(&CommandSpec::shell("true"), ExecOptions::default()).await.expect_err("its sandbox is gone");
    drop(call);
    eventually("it is back", || async {
        let row = installation.handle().get(id).await.unwrap();
        row.status == WorkspaceStatus::Ready && row.warnings.iter().any(|warning| warning.contains("lost"))
    })
    .await;
    assert_eq!(installation.sh(id, "cat file").await, "kept");
    // Lost again at once: something is wrong with it.
    installation.provider.lose_sandbox(id).await;
    installation.wait_for(id, Some(WorkspaceStatus::Failed)).await;
    installation.handle().destroy(id).await.unwrap();
}

/// A sandbox that ran out of memory says so, and may do so as often as it likes.
#[tokio::test]
async fn a_sandbox_without_memory_is_started_again_each_time() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    for time in 1..=3 {
        installation.provider.run_out_of_memory(id).await;
        eventually("it says so", || async {
            let row = installation.handle().get(id).await.unwrap();
            let told = row.warnings.iter().filter(|warning| warning.starts_with("oom_restarted")).count();
            row.status == WorkspaceStatus::Ready && told == time
        })
        .await;
        assert_eq!(installation.sh(id, "cat file").await, "kept");
    }
    installation.handle().destroy(id).await.unwrap();
}

/// Without a disk there is nothing to resume.
#[tokio::test]
async fn a_sandbox_without_a_disk_fails_with_the_reason() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.provider.lose_everything(id).await;
    // Found by reconcile, without anybody calling.
    installation.wait_for(id, Some(WorkspaceStatus::Failed)).await;
    let row = installation.handle().get(id).await.unwrap();
    assert_eq!(row.error.unwrap().code, "sandbox_lost");
}

/// A destroy that fails is tried again until nothing is left.
#[tokio::test]
async fn a_failed_destroy_is_tried_again() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.provider.plan(Operation::Destroy, Fault::Fail("busy"));
    installation.handle().destroy(id).await.expect_err("the first try fails");
    assert_eq!(installation.status(id).await, Some(WorkspaceStatus::Destroying));
    installation.handle().destroy(id).await.unwrap();
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// A sandbox of ours that no row knows is destroyed.
#[tokio::test]
async fn an_orphan_is_destroyed() {
    let installation = Installation::start().await;
    let kept = installation.create().await.id;
    let spec = emergent_provider::SandboxSpec {
        id: emergent_types::WorkspaceId::generate(),
        limits: emergent_types::ResourceLimits::WORKSPACE_DEFAULT,
        network: emergent_types::NetworkMode::Isolated,
        base_image: None,
        named: emergent_provider::NamedDemands::default(),
        agent_key: emergent_agent_client::AgentKey::derive(b"x", kept),
    };
    installation.provider.create(&spec).await.unwrap();
    eventually("the orphan is gone", || async { installation.provider.list().await.unwrap().len() == 1 })
        .await;
    assert_eq!(installation.sh(kept, "echo fine").await, "fine");
}

/// A failed resume says why and can be destroyed.
#[tokio::test]
async fn a_failed_resume_keeps_its_reason() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.handle().stop(id, StopMode::Disk).await.unwrap();
    installation.provider.plan(Operation::Resume, Fault::Fail("no more loop devices"));
    let error = installation.handle().resume(id).await.unwrap_err();
    assert!(error.to_string().contains("no more loop devices"), "{error}");
    installation.wait_for(id, Some(WorkspaceStatus::Failed)).await;
    installation.handle().destroy(id).await.unwrap();
}

/// A slow provider delays its own workspace and nobody else's.
#[tokio::test]
async fn a_hanging_create_holds_nobody_up() {
    let installation = Installation::start().await;
    installation.provider.plan(Operation::Create, Fault::Hang);
    let hanging = installation.handle().create(Default::default(), false).await.unwrap().id;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let other = installation.create().await.id;
    assert_eq!(installation.sh(other, "echo fine").await, "fine");
    installation.handle().destroy(hanging).await.unwrap();
}
