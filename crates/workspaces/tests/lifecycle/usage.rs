//! What workspaces use, and what is said when it is too much.

use std::time::Duration;

use emergent_provider::fake::Fault;
use emergent_provider::{Operation, Usage};
use emergent_types::{ByteSize, Cpu, ResourceLimits, StopMode, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{
    Alert, AlertKind, HostCapacity, LifecycleError, NewWorkspace, RequestedLimits, Severity,
};

use crate::setup::{Installation, eventually};

const LIMITS: ResourceLimits = ResourceLimits {
    cpu: Cpu::from_millis(1000),
    memory: ByteSize::from_mib(1000),
    disk: ByteSize::from_mib(1000),
};

/// A host of 4 processors, 4,000 MiB and a disk of 4,000 MiB, looked at all the time.
async fn start() -> Installation {
    Installation::start_with(|options| {
        options.usage_interval = Duration::from_millis(20);
        options.default_limits = LIMITS;
        options.host =
            HostCapacity { cpus: Some(4.0), memory_bytes: Some(4000 << 20), disk_bytes: Some(4000 << 20) };
    })
    .await
}

fn uses(memory_mib: u64, disk_mib: u64) -> Usage {
    Usage {
        cpu_time: Some(Duration::ZERO),
        memory_bytes: Some(memory_mib << 20),
        processes: Some(3),
        disk_bytes: Some(disk_mib << 20),
        on_another_host: false,
    }
}

fn alert(installation: &Installation, kind: AlertKind) -> Option<Alert> {
    installation.handle().alerts().into_iter().find(|alert| alert.kind == kind)
}

async fn wait_for(installation: &Installation, kind: AlertKind, raised: bool) {
    let what = format!("{kind} is {raised}");
    eventually(&what, || async { alert(installation, kind).is_some() == raised }).await;
}

#[tokio::test]
async fn what_a_workspace_uses_is_told_and_kept_for_a_while() {
    let installation = start().await;
    let (handle, id) = (installation.handle(), installation.create().await.id);
    let unknown = handle.usage(id).await.unwrap();
    assert_eq!((unknown.limits, unknown.latest), (LIMITS, None), "the provider cannot tell");

    installation.provider.set_usage(id, uses(250, 10));
    eventually("it is looked at", || async {
        handle.usage(id).await.unwrap().samples.iter().any(|sample| sample.usage == uses(250, 10))
    })
    .await;
    let found = handle.usage(id).await.unwrap();
    assert_eq!(found.latest.unwrap().usage, uses(250, 10));
    // Nobody has used the workspace by looking at it.
    let used_at = handle.get(id).await.unwrap().last_used_at;
    handle.usage(id).await.unwrap();
    assert_eq!(handle.get(id).await.unwrap().last_used_at, used_at);
    eventually("no more than so many are kept", || async {
        handle.usage(id).await.unwrap().samples.len() == 60
    })
    .await;
    let totals = handle.usage_totals();
    assert_eq!((totals[0].all.workspaces, totals[0].all.memory_bytes), (1, 250 << 20));
    assert_eq!(totals[0].idle.workspaces, 0, "it has just been used");
}

/// Processor time is compared with the look before, over real time: half a processor is no more than that
/// however slow the machine is.
#[tokio::test]
async fn processor_time_becomes_processors() {
    let installation = start().await;
    let (handle, id) = (installation.handle(), installation.create().await.id);
    let begun = std::time::Instant::now();
    let spend = || {
        let cpu_time = Some(begun.elapsed() / 2);
        installation.provider.set_usage(id, Usage { cpu_time, ..uses(1, 1) });
    };
    eventually("about half a processor is in use", || async {
        spend();
        let cores = handle.usage(id).await.unwrap().latest.and_then(|sample| sample.cpu_cores);
        cores.is_some_and(|cores| cores > 0.3 && cores < 0.7)
    })
    .await;
}

#[tokio::test]
async fn what_does_not_run_or_cannot_be_asked_is_an_error() {
    let installation = start().await;
    let (handle, id) = (installation.handle(), installation.create().await.id);
    let missing = WorkspaceId::generate();
    assert!(matches!(handle.usage(missing).await, Err(LifecycleError::NotFound { .. })));
    handle.stop(id, StopMode::Disk).await.unwrap();
    let stopped = handle.usage(id).await;
    assert!(
        matches!(stopped, Err(LifecycleError::WrongState { status: WorkspaceStatus::Stopped, .. })),
        "{stopped:?}"
    );
    // One that hangs is given up, and the others are looked at all the same.
    let (other, hanging) = (installation.create().await.id, installation.create().await.id);
    installation.provider.set_usage(other, uses(100, 1));
    installation.provider.set_usage(hanging, uses(100, 1));
    installation.provider.plan(Operation::Usage, Fault::Hang);
    eventually("all are looked at", || async { handle.usage_totals()[0].all.memory_bytes == 200 << 20 })
        .await;
}

/// Proves: RISK-RESOURCES-4
#[tokio::test]
async fn too_much_of_the_host_is_an_alert_until_it_is_over() {
    let installation = start().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(installation.create().await.id);
    }
    for id in &ids[..3] {
        installation.provider.set_usage(*id, uses(1000, 100));
    }
    eventually("three are known", || async {
        installation.handle().usage_totals()[0].all.memory_bytes == 3000 << 20
    })
    .await;
    assert_eq!(alert(&installation, AlertKind::HostMemory), None, "75 %");

    installation.provider.set_usage(ids[3], uses(300, 100));
    wait_for(&installation, AlertKind::HostMemory, true).await;
    let raised = alert(&installation, AlertKind::HostMemory).unwrap();
    assert_eq!((raised.severity, raised.threshold), (Severity::Warning, Some(80.0)));
    assert!(raised.value.is_some_and(|value| (value - 82.5).abs() < 0.01), "{raised:?}");
    assert_eq!(alert(&installation, AlertKind::HostDisk), None);
    // What is elsewhere says nothing about this host.
    installation.provider.set_usage(ids[3], Usage { on_another_host: true, ..uses(100_000, 900) });
    wait_for(&installation, AlertKind::HostMemory, true).await;
    installation.provider.set_usage(ids[0], uses(0, 100));
    wait_for(&installation, AlertKind::HostMemory, false).await;

    // More than there is: serious.
    installation.provider.set_usage(ids[3], uses(3000, 4000));
    wait_for(&installation, AlertKind::HostDisk, true).await;
    assert_eq!(alert(&installation, AlertKind::HostDisk).unwrap().severity, Severity::Critical);
    installation.handle().destroy(ids[3]).await.unwrap();
    wait_for(&installation, AlertKind::HostDisk, false).await;
    let raised: u64 = installation.handle().alerts_raised().iter().map(|(_, times)| times).sum();
    assert!(raised >= 3, "{raised}");
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_is_an_alert() {
    let installation = start().await;
    let limits = RequestedLimits { disk: Some(ByteSize::from_mib(100)), ..RequestedLimits::default() };
    let new = NewWorkspace { limits, ..NewWorkspace::default() };
    let id = installation.handle().create(new, true).await.unwrap().id;
    installation.provider.set_usage(id, uses(1, 79));
    eventually("it is known", || async {
        installation.handle().usage_totals()[0].all.disk_bytes == 79 << 20
    })
    .await;
    assert_eq!(alert(&installation, AlertKind::WorkspaceDisk), None);
    installation.provider.set_usage(id, uses(1, 80));
    wait_for(&installation, AlertKind::WorkspaceDisk, true).await;
    let raised = alert(&installation, AlertKind::WorkspaceDisk).unwrap();
    assert_eq!(raised.id, format!("workspace_disk:{id}"));
    installation.provider.set_usage(id, uses(1, 76));
    eventually("it is known", || async {
        installation.handle().usage_totals()[0].all.disk_bytes == 76 << 20
    })
    .await;
    assert!(alert(&installation, AlertKind::WorkspaceDisk).is_some(), "not well below");
    installation.provider.set_usage(id, uses(1, 70));
    wait_for(&installation, AlertKind::WorkspaceDisk, false).await;
}
