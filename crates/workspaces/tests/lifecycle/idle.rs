//! Workspaces that nobody uses are stopped, where an administrator wants that.

use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::Operation;
use emergent_provider::fake::Fault;
use emergent_types::WorkspaceStatus;
use emergent_workspaces::PoolSpec;

use crate::setup::{Installation, eventually};

#[tokio::test]
async fn what_nobody_uses_is_stopped_and_comes_back() {
    let installation =
        Installation::start_with(|options| options.idle_stop = Some(Duration::from_secs(2))).await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    installation.wait_for(id, Some(WorkspaceStatus::Stopped)).await;
    installation.handle().resume(id).await.unwrap();
    assert_eq!(installation.sh(id, "cat file").await, "kept");
    // A call that takes longer is use for as long as it takes.
    let call = installation.handle().tool(id).await.unwrap();
    let outcome = call.exec(&CommandSpec::shell("sleep 4; echo done"), ExecOptions::default()).await.unwrap();
    assert_eq!(outcome.stdout.to_text().trim_end(), "done");
}

#[tokio::test]
async fn a_stop_for_want_of_use_that_fails_is_tried_again_later() {
    let installation =
        Installation::start_with(|options| options.idle_stop = Some(Duration::from_secs(2))).await;
    for operation in [Operation::Stop, Operation::Suspend] {
        installation.provider.plan(operation, Fault::Fail("nobody answers"));
    }
    let id = installation.create().await.id;
    installation.wait_for(id, Some(WorkspaceStatus::Stopped)).await;
    let warnings = installation.handle().get(id).await.unwrap().warnings;
    assert_eq!(
        warnings.iter().filter(|warning| warning.contains("a stop failed")).count(),
        1,
        "{warnings:?}"
    );
}

#[tokio::test]
async fn members_of_a_pool_wait_as_long_as_it_takes() {
    let installation = Installation::start_with(|options| {
        options.idle_stop = Some(Duration::from_millis(200));
        options.pools = vec![PoolSpec::of_defaults(1)];
    })
    .await;
    let ready = || async { installation.handle().pools().pools[0].ready == 1 };
    eventually("a member is ready", ready).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(ready().await, "it is still to be had");
}
