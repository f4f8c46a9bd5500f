//! What goes wrong while a workspace runs.

use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::fake::Fault;
use emergent_provider::{ObservedState, Operation, WorkspaceProvider};
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
    // Lost again at once: something is wrong with it. Its files can still be had.
    installation.provider.lose_sandbox(id).await;
    installation.wait_for(id, Some(WorkspaceStatus::Stopped)).await;
    let row = installation.handle().get(id).await.unwrap();
    assert_eq!(row.error.unwrap().code, "sandbox_lost");
    installation.handle().resume(id).await.unwrap();
    assert_eq!(installation.sh(id, "cat file").await, "kept");
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
        volumes: Vec::new(),
        agent_key: emergent_agent_client::AgentKey::derive(b"x", kept),
    };
    installation.provider.create(&spec).await.unwrap();
    eventually("the orphan is gone", || async { installation.provider.list().await.unwrap().len() == 1 })
        .await;
    assert_eq!(installation.sh(kept, "echo fine").await, "fine");
}

/// A resume that fails says why, and may be asked for again: nothing is lost.
#[tokio::test]
async fn a_failed_resume_can_be_tried_again() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    installation.handle().stop(id, StopMode::Disk).await.unwrap();
    for fault in [Fault::Fail("no more loop devices"), Fault::FailAfterwards("the answer was lost")] {
        installation.provider.plan(Operation::Resume, fault.clone());
        let error = installation.handle().resume(id).await.unwrap_err();
        let row = installation.handle().get(id).await.unwrap();
        assert_eq!(row.status, WorkspaceStatus::Stopped, "{fault:?}");
        let said = row.error.unwrap();
        assert_eq!((said.code.as_str(), &said.message), ("resume_failed", &error.to_string()));
        let seen = installation.provider.list().await.unwrap();
        assert_eq!(seen[0].state, ObservedState::Stopped, "{fault:?}: nothing runs that should not");
    }
    let row = installation.handle().resume(id).await.unwrap();
    assert!(row.error.is_none(), "{row:?}");
    assert_eq!(installation.sh(id, "cat file").await, "kept");
}

/// A stop that fails leaves a workspace that works.
#[tokio::test]
async fn a_failed_stop_can_be_tried_again() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    for fault in [Fault::Fail("nobody answers"), Fault::FailAfterwards("the answer was lost")] {
        installation.provider.plan(Operation::Stop, fault.clone());
        let error = installation.handle().stop(id, StopMode::Disk).await.unwrap_err();
        assert!(error.to_string().contains("failed at fault"), "{error}");
        // Where it was stopped after all, it is started again.
        eventually("it works", || async {
            let Ok(call) = installation.handle().tool(id).await else { return false };
            let outcome = call.exec(&CommandSpec::shell("cat file"), ExecOptions::default()).await;
            outcome.is_ok_and(|outcome| outcome.stdout.to_text().trim_end() == "kept")
        })
        .await;
        let warnings = installation.handle().get(id).await.unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning.contains("a stop failed")), "{warnings:?}");
    }
    installation.handle().stop(id, StopMode::Disk).await.unwrap();
    assert_eq!(installation.status(id).await, Some(WorkspaceStatus::Stopped));
}

/// What is started again by itself goes on trying while its provider is away.
#[tokio::test]
async fn a_recovery_outlasts_its_provider() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    installation.provider.plan(Operation::Resume, Fault::Fail("the daemon is being restarted"));
    installation.provider.lose_sandbox(id).await;
    installation.wait_for(id, Some(WorkspaceStatus::Resuming)).await;
    installation.wait_for(id, Some(WorkspaceStatus::Ready)).await;
    assert_eq!(installation.sh(id, "cat file").await, "kept");
}

/// A stopped workspace whose disk is gone says so without anybody asking, and fails when somebody resumes it.
#[tokio::test]
async fn a_stopped_workspace_without_a_disk_says_so() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.handle().stop(id, StopMode::Disk).await.unwrap();
    installation.provider.lose_everything(id).await;
    eventually("it says so", || async {
        let row = installation.handle().get(id).await.unwrap();
        row.error.is_some_and(|error| error.code == "sandbox_lost")
    })
    .await;
    installation.handle().resume(id).await.expect_err("there is nothing to resume");
    installation.wait_for(id, Some(WorkspaceStatus::Failed)).await;
}

/// A resume whose remains could not be stopped runs under a row that says otherwise, until it is seen.
#[tokio::test]
async fn what_runs_although_it_is_stopped_is_stopped() {
    let mut installation = Installation::start_with(|options| {
        options.reconcile_interval = Duration::from_secs(3600);
    })
    .await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    installation.handle().stop(id, StopMode::Disk).await.unwrap();
    installation.provider.plan(Operation::Resume, Fault::FailAfterwards("the answer was lost"));
    installation.provider.plan(Operation::Stop, Fault::Fail("nobody answers"));
    installation.handle().resume(id).await.unwrap_err();
    let state = async |installation: &Installation| installation.provider.list().await.unwrap()[0].state;
    assert_eq!(state(&installation).await, ObservedState::Running);
    installation.shut_down().await;
    installation.start_again().await;
    eventually("it is stopped", || async { state(&installation).await == ObservedState::Stopped }).await;
    assert_eq!(installation.status(id).await, Some(WorkspaceStatus::Stopped));
    installation.handle().resume(id).await.unwrap();
    assert_eq!(installation.sh(id, "cat file").await, "kept");
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
