//! Stopping, resuming, destroying.

use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::WorkspaceProvider;
use emergent_types::{StopMode, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{LifecycleError, ToolError};

use crate::setup::Installation;

/// Proves: LIFE-11, LIFE-12
#[tokio::test]
async fn files_are_back_after_stop_and_resume() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    let stopped = installation.handle().stop(id, StopMode::Disk).await.unwrap();
    assert_eq!(stopped.status, WorkspaceStatus::Stopped);
    let refused = installation.handle().tool(id).await.err().unwrap();
    assert!(matches!(refused, ToolError::NotReady { status: WorkspaceStatus::Stopped, .. }), "{refused}");
    assert_eq!(
        installation.handle().stop(id, StopMode::Disk).await.unwrap().status,
        WorkspaceStatus::Stopped
    );
    let resumed = installation.handle().resume(id).await.unwrap();
    assert_eq!(resumed.status, WorkspaceStatus::Ready);
    assert_eq!(installation.handle().resume(id).await.unwrap().status, WorkspaceStatus::Ready);
    assert_eq!(installation.sh(id, "cat file").await, "kept");
}

/// Proves: LIFE-08, LIFE-10
#[tokio::test]
async fn destroy_removes_everything_and_is_then_not_found() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.handle().destroy(id).await.unwrap();
    assert!(installation.provider.list().await.unwrap().is_empty());
    for result in [
        installation.handle().destroy(id).await,
        installation.handle().stop(id, StopMode::Disk).await.map(drop),
        installation.handle().get(id).await.map(drop),
    ] {
        assert!(matches!(result, Err(LifecycleError::NotFound { .. })), "{result:?}");
    }
}

/// Proves: LIFE-09
#[tokio::test]
async fn destroy_lets_running_commands_end_politely() {
    ends_politely(async |_, _| {}).await;
}

/// A stop that is under way has asked them to end already, and takes no time from them.
#[tokio::test]
async fn a_destroy_during_a_stop_lets_them_end_as_well() {
    ends_politely(async |installation, id| {
        let handle = installation.handle();
        tokio::spawn(async move { handle.stop(id, StopMode::Disk).await });
        installation.wait_for(id, Some(WorkspaceStatus::Stopping)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
}

async fn ends_politely(before: impl AsyncFnOnce(&Installation, WorkspaceId)) {
    let installation = Installation::start_with(|options| options.grace = Duration::from_secs(10)).await;
    let id = installation.create().await.id;
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("saved");
    let command = format!(
        "trap 'sleep 0.3; echo saved > {}; exit 0' TERM; echo up > up; while :; do sleep 0.02; done",
        marker.display()
    );
    let handle = installation.handle();
    let running = tokio::spawn(async move {
        let call = handle.tool(id).await.unwrap();
        call.exec(&CommandSpec::shell(command), ExecOptions::default()).await
    });
    while installation
        .handle()
        .tool(id)
        .await
        .unwrap()
        .exec(&CommandSpec::shell("test -e up"), ExecOptions::default())
        .await
        .unwrap()
        .exit
        .code
        != 0
    {}
    before(&installation, id).await;
    let clock = std::time::Instant::now();
    installation.handle().destroy(id).await.unwrap();
    assert!(clock.elapsed() < Duration::from_secs(5), "took {:?}", clock.elapsed());
    assert_eq!(std::fs::read_to_string(&marker).unwrap().trim(), "saved");
    // Whatever the call heard, it has ended.
    let _ = running.await.unwrap();
}

/// Many destroys at once share one outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_destroys_join() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    let destroys: Vec<_> = (0..8)
        .map(|_| {
            let handle = installation.handle();
            tokio::spawn(async move { handle.destroy(id).await })
        })
        .collect();
    let mut succeeded = 0;
    for destroy in destroys {
        match destroy.await.unwrap() {
            Ok(()) => succeeded += 1,
            Err(LifecycleError::NotFound { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(succeeded >= 1);
    assert_eq!(installation.status(id).await, None);
}

/// Stops, resumes and destroys in any order never wedge a workspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_requests_ends_well() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    let mut storm = Vec::new();
    for round in 0..30 {
        let handle = installation.handle();
        storm.push(tokio::spawn(async move {
            match round % 3 {
                0 => drop(handle.stop(id, StopMode::Disk).await),
                1 => drop(handle.resume(id).await),
                _ => drop(handle.tool(id).await),
            }
        }));
    }
    for request in storm {
        tokio::time::timeout(Duration::from_secs(20), request).await.expect("answers").unwrap();
    }
    assert!(matches!(installation.status(id).await, Some(WorkspaceStatus::Ready | WorkspaceStatus::Stopped)));
    installation.handle().destroy(id).await.unwrap();
    assert!(installation.provider.list().await.unwrap().is_empty());
}
