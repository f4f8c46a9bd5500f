//! Expiry.

use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::WorkspaceProvider;
use emergent_types::{StopMode, WorkspaceStatus};
use emergent_workspaces::NewWorkspace;

use crate::setup::Installation;

async fn create_with_ttl(installation: &Installation, seconds: u64) -> emergent_types::WorkspaceId {
    let new = NewWorkspace { ttl: Some(Duration::from_secs(seconds)), ..NewWorkspace::default() };
    installation.handle().create(new, true).await.unwrap().id
}

/// Proves: LIFE-13
#[tokio::test]
async fn what_is_not_used_ends() {
    let installation = Installation::start().await;
    let ready = create_with_ttl(&installation, 1).await;
    let stopped = create_with_ttl(&installation, 1).await;
    installation.handle().stop(stopped, StopMode::Disk).await.unwrap();
    let kept = installation.create().await.id;
    installation.wait_for(ready, None).await;
    installation.wait_for(stopped, None).await;
    assert_eq!(installation.status(kept).await, Some(WorkspaceStatus::Ready));
    assert_eq!(installation.provider.list().await.unwrap().len(), 1);
}

/// A sandbox that was lost is brought back for who still uses it: that it was is no use, and what is over by then
/// goes.
/// Proves: LIFE-13
#[tokio::test]
async fn what_was_lost_comes_back_for_no_longer_than_it_had() {
    let mut installation = Installation::start().await;
    let (over, kept) = (create_with_ttl(&installation, 1).await, create_with_ttl(&installation, 600).await);
    let before = installation.handle().get(kept).await.unwrap();
    installation.crash().await;
    for id in [over, kept] {
        installation.provider.lose_sandbox(id).await;
    }
    tokio::time::sleep(Duration::from_millis(1200)).await;
    installation.start_again().await;
    installation.wait_for(over, None).await;
    installation.wait_for(kept, Some(WorkspaceStatus::Ready)).await;
    let after = installation.handle().get(kept).await.unwrap();
    assert!(after.warnings.iter().any(|warning| warning.contains("was lost")), "{after:?}");
    assert!(after.last_used_at <= before.last_used_at, "{after:?}");
    assert_eq!(after.expires_at.unwrap(), after.last_used_at + Duration::from_secs(600));
}

/// Proves: LIFE-13, LIFE-15
#[tokio::test]
async fn use_moves_the_end_and_a_running_command_holds_it() {
    let installation = Installation::start().await;
    let id = create_with_ttl(&installation, 2).await;
    let before = installation.handle().get(id).await.unwrap();
    let call = installation.handle().tool(id).await.unwrap();
    call.exec(&CommandSpec::shell("sleep 3.5"), ExecOptions::default()).await.unwrap();
    drop(call);
    let after = installation.handle().get(id).await.unwrap();
    assert!(after.last_used_at >= before.last_used_at + Duration::from_secs(3));
    assert_eq!(after.expires_at.unwrap(), after.last_used_at + Duration::from_secs(2));
    // And the database hears of it, so that a restart does not forget it.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    let listed = installation.handle().list(Default::default(), None, 10.try_into().unwrap()).await.unwrap();
    assert_eq!(listed.items[0].last_used_at, after.last_used_at);
    installation.wait_for(id, None).await;
}
