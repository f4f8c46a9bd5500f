//! Restarts: whatever state a row was left in, its life goes on.

use emergent_provider::{NamedDemands, WorkspaceProvider};
use emergent_store::WorkspaceUpdate;
use emergent_types::{StopMode, WorkspaceStatus};
use emergent_workspaces::{NewWorkspace, RequestedLimits};

use crate::setup::Installation;

async fn leave_in(installation: &mut Installation, id: emergent_types::WorkspaceId, status: WorkspaceStatus) {
    installation.shut_down().await;
    let store = installation.open_store().await;
    store.update_workspace(id, WorkspaceUpdate::to_status(status)).await.unwrap();
    store.close().await;
    drop(store);
    installation.start_again().await;
}

/// Running workspaces are adopted, with their processes.
#[tokio::test]
async fn a_restart_adopts_what_runs() {
    let mut installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "sleep 600 & echo $! > pid").await;
    installation.shut_down().await;
    installation.start_again().await;
    assert_eq!(installation.sh(id, "kill -0 $(cat pid) && echo alive").await, "alive");
    assert_eq!(installation.handle().get(id).await.unwrap().status, WorkspaceStatus::Ready);
    installation.handle().destroy(id).await.unwrap();
}

/// Every unfinished step is finished after a restart.
#[tokio::test]
async fn unfinished_steps_are_finished() {
    for (left_in, ends_in) in [
        (WorkspaceStatus::Stopping, Some(WorkspaceStatus::Stopped)),
        (WorkspaceStatus::Resuming, Some(WorkspaceStatus::Ready)),
        (WorkspaceStatus::Destroying, None),
        (WorkspaceStatus::Failed, Some(WorkspaceStatus::Failed)),
    ] {
        let mut installation = Installation::start().await;
        let id = installation.create().await.id;
        leave_in(&mut installation, id, left_in).await;
        installation.wait_for(id, ends_in).await;
        let expected = usize::from(ends_in.is_some());
        assert_eq!(installation.provider.list().await.unwrap().len(), expected, "left in {left_in}");
    }
}

/// A create that was cut off is removed when somebody waited for it, and begun again when it
/// had been promised.
#[tokio::test]
async fn a_create_that_was_cut_off_is_finished_or_removed() {
    for waited in [true, false] {
        let mut installation = Installation::start().await;
        let id = installation.handle().create(NewWorkspace::default(), waited).await.unwrap().id;
        installation.wait_for(id, Some(WorkspaceStatus::Ready)).await;
        leave_in(&mut installation, id, WorkspaceStatus::Creating).await;
        installation.wait_for(id, (!waited).then_some(WorkspaceStatus::Ready)).await;
        assert_eq!(installation.provider.list().await.unwrap().len(), usize::from(!waited));
    }
}

/// A value that a request names counts as named although it is the default, also for a create
/// that is begun again.
#[tokio::test]
async fn what_was_named_stays_named() {
    let mut installation = Installation::start().await;
    let limits = RequestedLimits {
        memory: Some(installation.options.default_limits.memory),
        ..RequestedLimits::default()
    };
    let new = NewWorkspace { limits, ..NewWorkspace::default() };
    let id = installation.handle().create(new, false).await.unwrap().id;
    installation.wait_for(id, Some(WorkspaceStatus::Ready)).await;
    let named = NamedDemands { memory: true, ..NamedDemands::default() };
    assert_eq!(installation.provider.named_in_latest_create(), named);
    // Another one in between, so that what is seen is of the second create.
    let other = installation.create().await.id;
    assert_eq!(installation.provider.named_in_latest_create(), NamedDemands::default());
    installation.handle().destroy(other).await.unwrap();
    leave_in(&mut installation, id, WorkspaceStatus::Creating).await;
    installation.wait_for(id, Some(WorkspaceStatus::Ready)).await;
    assert_eq!(installation.provider.named_in_latest_create(), named);
}

/// A sandbox that was lost while the server was down is resumed around its disk.
#[tokio::test]
async fn a_sandbox_lost_meanwhile_is_resumed() {
    let mut installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.sh(id, "echo kept > file").await;
    installation.shut_down().await;
    installation.provider.lose_sandbox(id).await;
    installation.start_again().await;
    crate::setup::eventually("it is back", || async {
        let row = installation.handle().get(id).await.unwrap();
        row.status == WorkspaceStatus::Ready && row.warnings.iter().any(|warning| warning.contains("lost"))
    })
    .await;
    assert_eq!(installation.sh(id, "cat file").await, "kept");
}

/// A stopped workspace stays stopped.
#[tokio::test]
async fn a_stopped_workspace_stays_stopped() {
    let mut installation = Installation::start().await;
    let id = installation.create().await.id;
    installation.handle().stop(id, StopMode::Disk).await.unwrap();
    installation.shut_down().await;
    installation.start_again().await;
    assert_eq!(installation.status(id).await, Some(WorkspaceStatus::Stopped));
    installation.handle().resume(id).await.unwrap();
}
