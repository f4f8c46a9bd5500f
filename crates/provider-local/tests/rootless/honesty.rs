//! What cannot be enforced without root is said, and refused where it was asked for.

use crate::support::{run, spec, subject};
use emergent_provider::{NamedDemands, ProviderError, WorkspaceProvider};
use emergent_types::{DiskEnforcement, Enforcement, SnapshotId};

/// Proves: CONSTRAINT-4
#[tokio::test]
async fn what_a_request_names_is_refused_and_leaves_nothing() {
    let subject = subject();
    for (field, named) in [
        ("cpu", NamedDemands { cpu: true, ..NamedDemands::default() }),
        ("memory", NamedDemands { memory: true, ..NamedDemands::default() }),
        ("disk", NamedDemands { disk: true, ..NamedDemands::default() }),
    ] {
        let mut wanted = spec();
        wanted.named = named;
        match subject.provider.create(&wanted).await {
            Err(ProviderError::NotEnforceable { what, .. }) => assert_eq!(what, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    assert_eq!(subject.provider.list().await.unwrap(), []);
    subject.assert_nothing_left();
}

/// A folder cannot be held still, so no copy of one is promised.
#[tokio::test]
async fn no_copies_are_promised() {
    let subject = subject();
    assert!(!subject.provider.capabilities().await.snapshots);
    let spec = spec();
    subject.provider.create(&spec).await.unwrap();
    let refused = subject.provider.snapshot(SnapshotId::generate(), &spec).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Unsupported { .. }), "{refused}");
    assert_eq!(subject.provider.list_snapshots().await.unwrap(), []);
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_default_is_dropped_and_named() {
    let subject = subject();
    let limits = subject.provider.capabilities().await.limits;
    assert_eq!((limits.cpu, limits.memory), (Enforcement::NotEnforced, Enforcement::NotEnforced));
    assert_eq!((limits.pids, limits.disk), (Enforcement::Enforced, DiskEnforcement::Monitored));

    let spec = spec();
    let made = subject.provider.create(&spec).await.unwrap();
    for lost in ["processor time", "memory", "disk", "only account"] {
        assert!(made.warnings.iter().any(|warning| warning.contains(lost)), "{lost}: {:?}", made.warnings);
    }
    assert_eq!(made.disk_enforcement, DiskEnforcement::Monitored);
    subject.provider.stop(spec.id).await.unwrap();
    assert_eq!(subject.provider.resume(&spec).await.unwrap(), made);
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

/// What is promised about processes is kept: 512 at this size.
#[tokio::test]
async fn processes_are_counted() {
    let subject = subject();
    let spec = spec();
    subject.provider.create(&spec).await.unwrap();
    let script = "python3 -c '
import os, time
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError as error:
    print(error.strerror, 400 < made <= 512, flush=True)
    os.kill(0, 9)
'; ulimit -u 100000 2>/dev/null && echo raised";
    let ran = run(&subject.provider, spec.id, script).await;
    assert!(ran.text.contains("Resource temporarily unavailable True"), "{ran:?}");
    assert!(!ran.text.contains("raised"), "{ran:?}");
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

/// Files that nobody may touch, of names and depths that nobody expects, go like all others.
#[tokio::test]
async fn whatever_a_guest_has_made_is_removed() {
    let subject = subject();
    let spec = spec();
    subject.provider.create(&spec).await.unwrap();
    let script = "cd /workspace && mkdir -p closed/inner && touch closed/inner/file && ln -s / way-out && \
        mkfifo pipe && python3 -c '
import os
for _ in range(300):
    os.mkdir(\"d\" * 200); os.chdir(\"d\" * 200)
' && chmod 0 closed/inner/file closed/inner closed && chmod 0555 /workspace /";
    run(&subject.provider, spec.id, script).await.ok();
    // Also when it is started again in between.
    subject.provider.stop(spec.id).await.unwrap();
    subject.provider.resume(&spec).await.unwrap();
    run(&subject.provider, spec.id, "stat -c %a /workspace/closed | grep -qx 0").await.ok();
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}
