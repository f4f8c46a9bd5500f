//! A server that ends before and after every durable step of everything it does, and the one after it.
//!
//! Whoever was promised something has it, nobody has it twice, and nothing is left that nobody has.

use std::collections::HashSet;
use std::time::Duration;

use emergent_provider::WorkspaceProvider;
use emergent_store::{SnapshotFilter, WorkspaceFilter, WorkspaceRow};
use emergent_types::{ByteSize, SnapshotId, StopMode, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{Failpoints, Handle, NewWorkspace, Place, PoolSpec};

use crate::setup::{Installation, eventually};

/// What is done when the server ends.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Create,
    CreateUnattended,
    Claim,
    Stop,
    Resume,
    Destroy,
    Snapshot,
    Restore,
    Fork,
    DeleteSnapshot,
    Refill,
    Adopt,
}

use Operation::*;

/// Every place, under everything that leads there.
fn matrix() -> Vec<(Operation, Place)> {
    Place::ALL
        .iter()
        .flat_map(|place| leading_to(*place).iter().map(|operation| (*operation, *place)))
        .collect()
}

/// All that comes to a place. A new place has no line here until somebody knows how it is come to.
fn leading_to(place: Place) -> &'static [Operation] {
    match place {
        Place::CreateBeforeTheRow | Place::CreateRowWritten => &[Create, CreateUnattended, Restore],
        Place::CreateSandboxRecorded => &[Create, CreateUnattended, Restore, Fork, Refill],
        Place::CreateSandboxMade | Place::CreateAgentGreeted | Place::CreateReady => {
            &[Create, CreateUnattended, Restore, Refill]
        }
        Place::RefillBeforeTheRow | Place::RefillRowWritten => &[Refill],
        Place::ClaimBeforeTheRow
        | Place::ClaimRowWritten
        | Place::ClaimLimitsAdjusted
        | Place::ClaimAgentTold => &[Claim],
        Place::StopBeforeTheIntent
        | Place::StopIntentWritten
        | Place::StopSandboxStopped
        | Place::StopWritten => &[Stop],
        Place::ResumeBeforeTheIntent
        | Place::ResumeIntentWritten
        | Place::ResumeSandboxStarted
        | Place::ResumeWritten => &[Resume],
        Place::DestroyBeforeTheIntent
        | Place::DestroyIntentWritten
        | Place::DestroySandboxRemoved
        | Place::DestroyRowRemoved => &[Destroy],
        Place::SnapshotBeforeTheRow | Place::SnapshotCopied => &[Snapshot, Fork],
        Place::SnapshotRowWritten | Place::SnapshotWritten => &[Snapshot],
        Place::DeletionBeforeTheIntent => &[DeleteSnapshot],
        Place::DeletionIntentWritten | Place::DeletionCopyRemoved => &[DeleteSnapshot, Fork],
        Place::AdoptBefore => &[Adopt],
        // Owners cannot be killed within one process once they all work; real servers are killed there.
        Place::AdoptAllHaveOwners => &[],
    }
}

fn is_before_the_intent(place: Place) -> bool {
    use Place::{DestroyBeforeTheIntent, ResumeBeforeTheIntent, StopBeforeTheIntent};
    matches!(place, DestroyBeforeTheIntent | ResumeBeforeTheIntent | StopBeforeTheIntent)
}

/// Two workspaces that nothing is done to, one that something is done to, and a snapshot.
struct Before {
    running: WorkspaceId,
    stopped: WorkspaceId,
    subject: WorkspaceId,
    snapshot: SnapshotId,
}

async fn prepare(installation: &Installation, operation: Operation) -> Before {
    let handle = installation.handle();
    let cold = NewWorkspace { warm_start: false, ..NewWorkspace::default() };
    let mut ids = Vec::new();
    for number in 0..3 {
        let id = handle.create(cold.clone(), true).await.unwrap().id;
        installation.sh(id, &format!("echo {number} > number")).await;
        ids.push(id);
    }
    let snapshot = handle.snapshot(ids[0], None, None).await.unwrap().id;
    handle.stop(ids[1], StopMode::Disk).await.unwrap();
    if matches!(operation, Resume) {
        handle.stop(ids[2], StopMode::Disk).await.unwrap();
    }
    if matches!(operation, Claim) {
        handle.set_pool_size(1).await.unwrap();
        eventually("a member is ready", || async { handle.pools().pools[0].ready == 1 }).await;
    }
    Before { running: ids[0], stopped: ids[1], subject: ids[2], snapshot }
}

async fn perform(handle: Handle, operation: Operation, before: &Before) {
    let cold = NewWorkspace { warm_start: false, ..NewWorkspace::default() };
    let restore = NewWorkspace { snapshot: Some(before.snapshot), ..NewWorkspace::default() };
    match operation {
        Create => drop(handle.create(cold, true).await),
        CreateUnattended => drop(handle.create(cold, false).await),
        Claim => drop(handle.create(NewWorkspace::default(), true).await),
        Restore => drop(handle.create(restore, true).await),
        Stop => drop(handle.stop(before.subject, StopMode::Disk).await),
        Resume => drop(handle.resume(before.subject).await),
        Destroy => drop(handle.destroy(before.subject).await),
        Snapshot => drop(handle.snapshot(before.subject, None, None).await),
        Fork => drop(handle.fork(before.subject, 1, None, None).await),
        DeleteSnapshot => drop(handle.delete_snapshot(before.snapshot).await),
        Refill => drop(handle.set_pool_size(1).await),
        Adopt => {}
    }
}

async fn rows(handle: &Handle) -> Vec<WorkspaceRow> {
    handle.list(WorkspaceFilter::default(), None, 100.try_into().unwrap()).await.unwrap().items
}

/// Every row is at rest and its limits are its sandbox's, what is on the host has a row or waits in the pool, and the other way round.
async fn is_settled(installation: &Installation) -> bool {
    let handle = installation.handle();
    let rows = rows(&handle).await;
    let at_rest =
        |row: &WorkspaceRow| matches!(row.status, WorkspaceStatus::Ready | WorkspaceStatus::Stopped);
    let pool = &handle.pools().pools[0];
    let named: HashSet<_> = rows.iter().map(|row| row.id).collect();
    let there: HashSet<_> =
        installation.provider.list().await.unwrap().into_iter().map(|seen| seen.id).collect();
    let listed =
        handle.list_snapshots(SnapshotFilter::default(), None, 100.try_into().unwrap()).await.unwrap();
    let copies = installation.provider.list_snapshots().await.unwrap().len();
    for row in rows.iter().filter(|row| row.status == WorkspaceStatus::Ready) {
        if installation.provider.limits_of(row.id).await != Some(row.resource_limits) {
            return false;
        }
    }
    rows.iter().all(at_rest)
        && named.is_subset(&there)
        && there.len() == named.len() + pool.size as usize
        && pool.ready == pool.size
        && listed.items.len() == copies
}

async fn end_at(operation: Operation, place: Place) {
    let failpoints = Failpoints::holding();
    let mut installation = Installation::start_with(|options| {
        options.failpoints = failpoints.clone();
        // A member has less memory than whoever claims it wants.
        let mut pool = PoolSpec::of_defaults(0);
        pool.shape.limits.memory = Some(ByteSize::from_mib(64));
        options.pools = vec![pool];
        options.pool_interval = Duration::from_millis(50);
    })
    .await;
    let before = prepare(&installation, operation).await;
    let what = format!("{operation:?} at {:?}", place.name());
    if matches!(operation, Adopt) {
        installation.crash().await;
        failpoints.arm(place);
        let starting = installation.begin_start().await;
        tokio::time::timeout(Duration::from_secs(20), failpoints.reached()).await.expect(&what);
        failpoints.let_fall();
        assert!(starting.await.is_err(), "{what}: it has ended");
    } else {
        failpoints.arm(place);
        let handle = installation.handle();
        let working = async {
            perform(handle, operation, &before).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = working => {}
            reached = tokio::time::timeout(Duration::from_secs(20), failpoints.reached()) => reached.expect(&what),
        }
        installation.crash_with(&failpoints).await;
    }
    installation.options.failpoints = Failpoints::default();
    installation.start_again().await;
    let clock = std::time::Instant::now();
    eventually(&format!("all is settled after {what}"), || is_settled(&installation)).await;
    assert!(clock.elapsed() < Duration::from_secs(10), "{what} took {:?}", clock.elapsed());

    // Who was not concerned has noticed nothing.
    let handle = installation.handle();
    assert_eq!(installation.sh(before.running, "cat number").await, "0", "{what}");
    assert_eq!(handle.get(before.stopped).await.unwrap().status, WorkspaceStatus::Stopped, "{what}");
    // Whoever it was done to is as before, or as it was to become.
    let subject = handle.get(before.subject).await.ok().map(|row| row.status);
    let count = rows(&handle).await.len();
    let (may_be, counts): (&[Option<WorkspaceStatus>], &[usize]) = match operation {
        // Of what was not written down nobody knows.
        Destroy | Stop if is_before_the_intent(place) => (&[Some(WorkspaceStatus::Ready)], &[3]),
        Resume if is_before_the_intent(place) => (&[Some(WorkspaceStatus::Stopped)], &[3]),
        Destroy => (&[None], &[2]),
        Stop => (&[Some(WorkspaceStatus::Stopped)], &[3]),
        Resume => (&[Some(WorkspaceStatus::Ready)], &[3]),
        // Whoever did not wait was answered before there was a sandbox.
        CreateUnattended if !matches!(place, Place::CreateBeforeTheRow | Place::CreateRowWritten) => {
            (&[Some(WorkspaceStatus::Ready)], &[4])
        }
        Create | CreateUnattended | Claim | Restore | Fork => (&[Some(WorkspaceStatus::Ready)], &[3, 4]),
        Snapshot | DeleteSnapshot | Refill | Adopt => (&[Some(WorkspaceStatus::Ready)], &[3]),
    };
    assert!(may_be.contains(&subject), "{what}: {subject:?}");
    assert!(counts.contains(&count), "{what}: {count} workspaces");
    if subject == Some(WorkspaceStatus::Ready) {
        assert_eq!(installation.sh(before.subject, "cat number").await, "2", "{what}");
    }
    for row in rows(&handle).await {
        handle.destroy(row.id).await.unwrap();
    }
    handle.set_pool_size(0).await.unwrap();
    eventually(&format!("nothing is left after {what}"), || async {
        installation.provider.list().await.unwrap().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_anywhere_loses_and_leaks_nothing() {
    for (operation, place) in matrix() {
        eprintln!("{operation:?} at {:?}", place.name());
        end_at(operation, place).await;
    }
}
