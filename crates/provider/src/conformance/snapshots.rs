//! Copies of disks, and sandboxes made from them.

use std::time::Duration;

use emergent_agent_client::{AgentError, CommandSpec};
use emergent_types::{ByteSize, DiskEnforcement, NetworkMode, Persistence, SnapshotId};

use super::subject::eventually;
use super::{Subject, TestSandbox};
use crate::{ObservedSnapshot, ObservedState, ProviderError, SandboxSpec, Snapshot};

async fn take(subject: &Subject, sandbox: &TestSandbox) -> Snapshot {
    let id = subject.snapshot_id();
    let taken = subject.provider.snapshot(id, &sandbox.spec).await.expect("snapshot works");
    assert_eq!((taken.id, taken.workspace), (id, sandbox.id()));
    taken
}

async fn restore(subject: &Subject, snapshot: SnapshotId) -> TestSandbox {
    subject.restored_with(snapshot, subject.spec()).await
}

async fn listed(subject: &Subject) -> Vec<ObservedSnapshot> {
    subject.provider.list_snapshots().await.expect("list_snapshots works")
}

/// What was there is in the copy, what came later is not, and the sandbox notices nothing.
pub async fn a_running_sandbox_is_copied_and_goes_on(subject: &Subject) {
    assert!(subject.provider.capabilities().await.snapshots);
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir -p deep/er && echo before > deep/er/file && chmod 751 deep/er/file").await;
    let process = sandbox.client.start_process(&CommandSpec::shell("sleep 600")).await.expect("starts");
    let taken = take(subject, &sandbox).await;
    assert_eq!(taken.isolation, sandbox.sandbox.isolation);
    assert_eq!((taken.network, taken.disk), (sandbox.spec.network, sandbox.spec.limits.disk));
    sandbox.sh("echo after > deep/er/file; echo new > later").await;

    let restored = restore(subject, taken.id).await;
    assert_eq!(restored.sh("cat deep/er/file; stat -c %a deep/er/file; ls").await, "before\n751\ndeep");
    restored.sh("echo other > deep/er/file").await;

    assert_eq!(sandbox.sh("cat deep/er/file later").await, "after\nnew");
    let processes = sandbox.client.list_processes().await.expect("lists");
    let kept = processes.iter().find(|seen| seen.process_id == process).expect("it is remembered");
    assert!(kept.exit.is_none(), "what ran has ended: {kept:?}");
    assert!(restored.client.list_processes().await.expect("lists").is_empty(), "a copy runs nothing");
}

/// A stopped sandbox stays stopped, and all that its stop keeps is copied.
pub async fn a_stopped_sandbox_is_copied(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let full = sandbox.sandbox.persistence == Persistence::Full;
    sandbox.sh("echo kept > file").await;
    if full {
        sandbox.sh("echo etc > /etc/of-test; mkdir -p /opt/data-of-test; echo home > ~/.of-test").await;
    }
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    let taken = take(subject, &sandbox).await;
    let seen = subject.provider.list().await.expect("list works");
    assert_eq!(seen.iter().map(|seen| seen.state).collect::<Vec<_>>(), [ObservedState::Stopped]);
    let restored = restore(subject, taken.id).await;
    assert_eq!(restored.sh("cat file").await, "kept");
    if full {
        let kept = restored.sh("cat /etc/of-test ~/.of-test; ls -d /opt/data-of-test").await;
        assert_eq!(kept, "etc\nhome\n/opt/data-of-test");
    }
    subject.resume(&sandbox).await;
    assert_eq!(sandbox.sh("cat file").await, "kept");
}

/// It has a name and a key of its own, and can itself be stopped, copied and removed.
pub async fn a_restored_sandbox_is_another_one(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("echo one > generation").await;
    let first = take(subject, &sandbox).await;
    let restored = restore(subject, first.id).await;
    assert_ne!(restored.sandbox.provider_id, sandbox.sandbox.provider_id);
    if subject.workspace_dir.is_some() {
        assert_eq!(restored.sh("uname -n").await, restored.id().hostname());
    }
    let key = sandbox.spec.agent_key.clone();
    let refused = subject.client_with_key(&restored.spec, key).greet().await;
    assert!(matches!(refused, Err(AgentError::Refused { .. })), "{refused:?}");

    restored.sh("echo two > generation").await;
    subject.provider.stop(restored.id()).await.expect("stop works");
    let second = take(subject, &restored).await;
    subject.resume(&restored).await;
    assert_eq!(restored.sh("cat generation").await, "two");
    assert_eq!(restore(subject, second.id).await.sh("cat generation").await, "two");
    assert_eq!(restore(subject, first.id).await.sh("cat generation").await, "one");
}

/// Links, owners, modes, times, holes and odd names come back as they were.
pub async fn every_kind_of_file_is_restored(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let make = r#"mkdir -p sub/dir 'odd "name"' && echo x > sub/file && ln -s sub/file link && ln -s /nowhere dangling
        ln sub/file sub/second && printf 'a\nb' > "$(printf 'new\nline')" && truncate -s 32M sparse
        chmod 0 sub/second; chmod 1777 sub/dir; touch -d @1000000000 sub/file
        if [ "$(id -u)" = 0 ]; then chown 1234:4321 sub/dir; fi"#;
    sandbox.sh(make).await;
    // Not the fake's own folder of services.
    let look = r#"find . -path ./.services -prune -o -printf '%p %y %l %m %U:%G %s %T@\n' | grep -v ^/ | sort | sed 's/\(d .*\) [0-9]* [0-9.]*$/\1/'"#;
    let before = sandbox.sh(look).await;
    let taken = take(subject, &sandbox).await;
    let restored = restore(subject, taken.id).await;
    if subject.workspace_dir.is_some() {
        assert_eq!(restored.sh(look).await, before);
        assert_eq!(restored.sh("stat -c %h sub/file").await, "2", "one file of two names");
        let taken_up = "du -k sparse | cut -f1";
        assert_eq!(restored.sh(taken_up).await, sandbox.sh(taken_up).await, "a hole takes up no room");
    }
    assert_eq!(restored.sh("readlink link dangling; cat link").await, "sub/file\n/nowhere\nx");
}

/// While files are written, a copy never has the later of two without the earlier.
pub async fn a_copy_is_of_one_moment(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let write = "n=0; while :; do n=$((n+1)); echo $n > a.new; mv a.new a; echo $n > b.new; mv b.new b; done";
    sandbox.client.start_process(&CommandSpec::shell(write)).await.expect("starts");
    eventually("it writes", || async { sandbox.run("test -s b").await.exit.code == 0 }).await;
    let mut last = 0;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let taken = take(subject, &sandbox).await;
        let restored = restore(subject, taken.id).await;
        let numbers = restored.sh("cat a b").await;
        let numbers: Vec<u64> = numbers.lines().map(|line| line.parse().expect("a number")).collect();
        let [first, second] = numbers[..] else { panic!("{numbers:?}") };
        assert!(first == second || first == second + 1, "the first says {first}, the second {second}");
        assert!(first > last, "nothing was written between two copies: {first}");
        last = first;
        subject.provider.destroy(restored.id()).await.expect("destroy works");
    }
}

/// What it was taken of may be gone.
pub async fn a_snapshot_outlives_its_sandbox(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("echo kept > file").await;
    let taken = take(subject, &sandbox).await;
    subject.provider.destroy(sandbox.id()).await.expect("destroy works");
    assert_eq!(listed(subject).await, [ObservedSnapshot::Whole(taken.clone())]);
    let (one, two) = tokio::join!(restore(subject, taken.id), restore(subject, taken.id));
    assert_eq!((one.sh("cat file").await, two.sh("cat file").await), ("kept".to_owned(), "kept".to_owned()));
    subject.provider.delete_snapshot(taken.id).await.expect("deletion works");
    assert_eq!(one.sh("cat file").await, "kept");
}

/// A retry after a lost answer changes nothing.
pub async fn a_snapshot_is_taken_once(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("echo before > file").await;
    let taken = take(subject, &sandbox).await;
    sandbox.sh("echo after > file").await;
    let again = subject.provider.snapshot(taken.id, &sandbox.spec).await.expect("snapshot works");
    assert_eq!(again, taken);
    let restored = restore(subject, taken.id).await;
    assert_eq!(restored.sh("cat file").await, "before");
    let same = subject.provider.restore(taken.id, &restored.spec).await.expect("restore again");
    assert_eq!(same.provider_id, restored.sandbox.provider_id);
}

/// Neither the network nor the size of the disk may be other than it was in a way that promises less.
pub async fn a_restore_loosens_nothing(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let taken = take(subject, &sandbox).await;
    let half = ByteSize::from_bytes(sandbox.spec.limits.disk.bytes() / 2);
    let limits = emergent_types::ResourceLimits { disk: half, ..sandbox.spec.limits };
    let (open, small) = (subject.spec(), subject.spec());
    let open = SandboxSpec { network: NetworkMode::Internet, ..open };
    let small = SandboxSpec { limits, ..small };
    for (spec, expected) in [(open, "network"), (small, "disk")] {
        let refused = subject.provider.restore(taken.id, &spec).await.expect_err("it is refused");
        assert!(
            matches!(refused, ProviderError::NotEnforceable { what, .. } if what == expected),
            "{refused}"
        );
    }
    let left: Vec<_> =
        subject.provider.list().await.expect("list works").iter().map(|seen| seen.id).collect();
    assert_eq!(left, [sandbox.id()]);
    let restored = restore(subject, taken.id).await;
    assert_eq!(restored.sandbox.network, sandbox.sandbox.network);
    assert_eq!(restored.sandbox.isolation, sandbox.sandbox.isolation);
}

/// Where disks are limited, a restored one has the size that was asked for, and no more.
pub async fn a_larger_disk_is_had(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("echo kept > file").await;
    let taken = take(subject, &sandbox).await;
    let old = sandbox.spec.limits.disk.bytes();
    let limits =
        emergent_types::ResourceLimits { disk: ByteSize::from_bytes(old * 3), ..sandbox.spec.limits };
    let restored = subject.restored_with(taken.id, SandboxSpec { limits, ..subject.spec() }).await;
    assert_eq!(restored.sh("cat file").await, "kept");
    if restored.sandbox.disk_enforcement == DiskEnforcement::Hard {
        let mib = |bytes: u64| bytes >> 20;
        restored
            .sh(&format!("dd iflag=fullblock if=/dev/zero of=big bs=1M count={} 2>/dev/null", mib(old * 2)))
            .await;
        let full = restored
            .run(&format!("dd iflag=fullblock if=/dev/zero of=more bs=1M count={}", mib(old * 2)))
            .await;
        assert_ne!(full.exit.code, 0);
        assert!(full.stderr.to_text().contains("No space left"), "{}", full.stderr.to_text());
    }
}

/// What exists is what is listed.
pub async fn snapshots_are_listed_and_deleted(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let (one, two) = (take(subject, &sandbox).await, take(subject, &sandbox).await);
    let mut seen = listed(subject).await;
    seen.sort_by_key(ObservedSnapshot::id);
    assert_eq!(seen, [ObservedSnapshot::Whole(one.clone()), ObservedSnapshot::Whole(two.clone())]);
    for _ in 0..2 {
        subject.provider.delete_snapshot(one.id).await.expect("deletion works");
        assert_eq!(listed(subject).await, [ObservedSnapshot::Whole(two.clone())]);
    }
    let gone = subject.provider.restore(one.id, &subject.spec()).await.expect_err("it is gone");
    assert!(matches!(gone, ProviderError::SnapshotNotFound { .. }), "{gone}");
    assert_eq!(sandbox.sh("echo up").await, "up");
}

/// And nothing is left of the attempt.
pub async fn what_is_not_there_is_neither_copied_nor_restored(subject: &Subject) {
    let nobody = subject.provider.snapshot(subject.snapshot_id(), &subject.spec()).await;
    assert!(matches!(nobody, Err(ProviderError::NotFound { .. })), "{nobody:?}");
    let nothing = subject.provider.restore(subject.snapshot_id(), &subject.spec()).await;
    assert!(matches!(nothing, Err(ProviderError::SnapshotNotFound { .. })), "{nothing:?}");
    assert_eq!(listed(subject).await, []);
    assert!(subject.provider.list().await.expect("list works").is_empty());
}

/// Whatever a cancelled snapshot leaves is listed and can be deleted, and the sandbox goes on.
pub async fn a_cancelled_snapshot_can_be_deleted(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("head -c 16M /dev/urandom > big").await;
    for delay_ms in [0, 1, 5, 20, 80, 320] {
        let id = subject.snapshot_id();
        let taking = subject.provider.snapshot(id, &sandbox.spec);
        let _ = tokio::time::timeout(Duration::from_millis(delay_ms), taking).await;
        subject.provider.delete_snapshot(id).await.expect("deletion works");
        assert_eq!(listed(subject).await, [], "after {delay_ms} ms");
        assert_eq!(sandbox.sh("echo x > written; cat written").await, "x");
    }
    take(subject, &sandbox).await;
}

/// Whatever a cancelled restore leaves is listed, and destroy removes it.
pub async fn a_cancelled_restore_can_be_destroyed(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("head -c 16M /dev/urandom > big").await;
    let taken = take(subject, &sandbox).await;
    for delay_ms in [0, 1, 5, 20, 80, 320] {
        let spec = subject.spec();
        let restoring = subject.provider.restore(taken.id, &spec);
        let _ = tokio::time::timeout(Duration::from_millis(delay_ms), restoring).await;
        subject.provider.destroy(spec.id).await.expect("destroy works");
        let left = subject.provider.list().await.expect("list works");
        assert!(!left.iter().any(|seen| seen.id == spec.id), "after {delay_ms} ms: {left:?}");
    }
    let restored = restore(subject, taken.id).await;
    assert_eq!(restored.sh("stat -c %s big").await, (16 << 20).to_string());
}

/// Whoever is first: there is a whole sandbox or none, and no snapshot.
pub async fn a_deletion_and_a_restore_do_not_disturb_each_other(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("head -c 16M /dev/urandom > big; sha256sum big > sum").await;
    for delay_ms in [0, 2, 10, 50] {
        let (taken, spec) = (take(subject, &sandbox).await, subject.spec());
        let deleting = async {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            subject.provider.delete_snapshot(taken.id).await.expect("deletion works");
        };
        let (restored, ()) = tokio::join!(subject.provider.restore(taken.id, &spec), deleting);
        assert_eq!(listed(subject).await, [], "after {delay_ms} ms");
        match restored {
            Ok(_) => {
                let client = subject.client(&spec);
                let check = CommandSpec::shell("sha256sum -c sum");
                let outcome = client.exec(&check, Default::default()).await.expect("the agent answers");
                assert_eq!(outcome.exit.code, 0, "{}", outcome.stdout.to_text());
                subject.provider.destroy(spec.id).await.expect("destroy works");
            }
            Err(ProviderError::SnapshotNotFound { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let left = subject.provider.list().await.expect("list works");
        assert_eq!(left.iter().map(|seen| seen.id).collect::<Vec<_>>(), [sandbox.id()]);
    }
}
