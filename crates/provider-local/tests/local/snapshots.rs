//! Copies of disks, and what comes between.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Subject, init_pid, made, program, run, spec, spec_with, subject};
use emergent_provider::{
    ObservedSnapshot, ObservedState, ProviderError, Sandbox, SandboxSpec, Snapshot, WorkspaceProvider,
};
use emergent_provider_local::{LocalProvider, Withheld};
use emergent_types::{ByteSize, ResourceLimits, SnapshotId, WorkspaceId};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;

/// More than anything takes that is not stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether nothing can be written to a sandbox's disk. Tries to freeze it, to find out; what was not frozen
/// goes on.
#[expect(unsafe_code, reason = "freezing is an ioctl")]
fn is_frozen(subject: &Subject, id: WorkspaceId) -> bool {
    const FIFREEZE: libc::c_ulong = 0xC004_5877;
    const FITHAW: libc::c_ulong = 0xC004_5878;
    let root = File::open(format!("/proc/{}/root", init_pid(subject, id))).unwrap();
    // SAFETY: both requests ignore their argument.
    let request = |what| match unsafe { libc::ioctl(root.as_raw_fd(), what, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    match request(FIFREEZE) {
        Ok(()) => {
            request(FITHAW).unwrap();
            false
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{error}");
            true
        }
    }
}

/// Starts a server that takes a copy, and kills it as soon as it has begun to write one.
fn kill_while_copying(subject: &Subject, id: WorkspaceId) -> SnapshotId {
    let snapshot = SnapshotId::generate();
    let mut server = Command::new(program())
        .arg("snapshot")
        .arg(subject.data_dir.path())
        .args([subject.installation.to_string(), id.to_string(), snapshot.to_string()])
        .spawn()
        .unwrap();
    let partial = subject.data_dir.path().join(format!("local/snapshots/{snapshot}/.disk.img.partial"));
    let deadline = Instant::now() + LIMIT;
    while !partial.exists() && server.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "no copy is begun");
        std::thread::yield_now();
    }
    server.kill().unwrap();
    server.wait().unwrap();
    snapshot
}

/// A sandbox of which a copy takes a while, left frozen by a server that was killed.
async fn left_frozen(subject: &Subject) -> (SandboxSpec, SnapshotId) {
    let mut wanted = spec_with(ResourceLimits { disk: ByteSize::from_mib(512), ..spec().limits });
    wanted.limits.memory = ByteSize::from_mib(256);
    subject.provider.create(&wanted).await.unwrap();
    let fill =
        "dd if=/dev/zero of=/workspace/big bs=1M count=300 2>&1 && sync && echo kept > /workspace/file";
    run(&subject.provider, wanted.id, fill).await.ok();
    for _ in 0..20 {
        let snapshot = kill_while_copying(subject, wanted.id);
        if is_frozen(subject, wanted.id) {
            let listed = subject.provider.list_snapshots().await.unwrap();
            assert!(listed.contains(&ObservedSnapshot::Partial(snapshot)), "{listed:?}");
            return (wanted, snapshot);
        }
        // It was done by then.
        subject.provider.delete_snapshot(snapshot).await.unwrap();
    }
    panic!("it was never killed in time");
}

/// Whether a process of a sandbox waits for something that no signal interrupts.
fn somebody_waits(id: WorkspaceId) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let waits = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('D'));
    let mut of_sandbox = processes.filter(|process| {
        std::fs::read_to_string(process.join("cgroup")).is_ok_and(|group| group.contains(&id.to_string()))
    });
    of_sandbox.any(|process| std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| waits(&stat)))
}

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| panic!("{what} is stuck"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_of_a_copy_leaves_a_sandbox_that_goes_on() {
    let subject = subject();
    let (spec, snapshot) = left_frozen(&subject).await;
    // What the next server does first.
    let next = subject.restarted();
    assert!(in_time("health", next.health()).await.is_healthy());
    assert!(!is_frozen(&subject, spec.id));
    let written =
        in_time("a write", run(&next, spec.id, "echo more >> /workspace/file; cat /workspace/file"));
    assert_eq!(written.await.ok(), "kept\nmore");
    // The same copy can be taken after all.
    let taken = next.snapshot(snapshot, &spec).await.unwrap();
    assert_eq!(next.list_snapshots().await.unwrap(), [ObservedSnapshot::Whole(taken)]);
    next.delete_snapshot(snapshot).await.unwrap();
    subject.remove(spec.id).await;
}

/// Where nobody has asked after its health before.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_first_finds_no_frozen_sandbox() {
    let subject = subject();
    for ends_first in [false, true] {
        let (spec, snapshot) = left_frozen(&subject).await;
        // Somebody waits for the disk, in a way that no signal ends.
        let id = spec.id;
        let mut writer = subject.provider.connect(id).await.unwrap();
        writer.write_all(b"echo x > /workspace/stuck").await.unwrap();
        writer.shutdown().await.unwrap();
        in_time("the writer", async {
            while !somebody_waits(id) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        if ends_first {
            let init = Pid::from_raw(init_pid(&subject, id)).unwrap();
            kill_process(init, Signal::KILL).unwrap();
        }
        let next = subject.restarted();
        in_time("stop", next.stop(id)).await.unwrap();
        assert_eq!(subject.only_state().await, ObservedState::Stopped);
        next.resume(&spec).await.unwrap();
        assert_eq!(run(&next, id, "cat /workspace/file").await.ok(), "kept");
        next.delete_snapshot(snapshot).await.unwrap();
        next.destroy(id).await.unwrap();
        subject.assert_nothing_left();
    }
}

async fn copied(subject: &Subject, spec: &SandboxSpec) -> (Snapshot, SandboxSpec, Sandbox) {
    let taken = subject.provider.snapshot(SnapshotId::generate(), spec).await.unwrap();
    let copy = crate::support::spec();
    let made = subject.provider.restore(taken.id, &copy).await.unwrap();
    (taken, copy, made)
}

/// A copy has names of its own, and everything else as it was.
#[tokio::test]
async fn a_copy_is_named_anew() {
    let (subject, spec) = made().await;
    let old = run(&subject.provider, spec.id, "cat /etc/hostname /etc/machine-id").await.ok();
    run(&subject.provider, spec.id, "echo 127.0.0.1 mine >> /etc/hosts; echo user > /etc/mine").await.ok();
    let (taken, copy, _) = copied(&subject, &spec).await;
    let new = run(&subject.provider, copy.id, "cat /etc/hostname /etc/machine-id").await.ok();
    assert_eq!(new, format!("{}\n{}", copy.id.hostname(), copy.id.as_uuid().simple()));
    assert_ne!(new, old);
    let kept = "tail -n 1 /etc/hosts; cat /etc/mine; stat -c '%U %a' /etc/hostname; uname -n";
    let kept = run(&subject.provider, copy.id, kept).await.ok();
    assert_eq!(kept, format!("127.0.0.1 mine\nuser\nroot 644\n{}", copy.id.hostname()));
    // And keeps them.
    subject.provider.stop(copy.id).await.unwrap();
    subject.provider.resume(&copy).await.unwrap();
    let again = run(&subject.provider, copy.id, "cat /etc/hostname /etc/machine-id").await.ok();
    assert_eq!(again, new);
    subject.provider.delete_snapshot(taken.id).await.unwrap();
    subject.provider.destroy(copy.id).await.unwrap();
    subject.remove(spec.id).await;
}

/// Whatever a guest has put where the names were: nothing of the host's is touched, and its copy starts.
#[tokio::test]
async fn a_copy_of_a_hostile_disk_starts() {
    let (subject, spec) = made().await;
    let victim = subject.data_dir.path().join("victim");
    std::fs::write(&victim, "kept").unwrap();
    let to_victim =
        format!("cd /etc; ln -sf {} hostname; rm machine-id; mkfifo machine-id", victim.display());
    for hostile in [
        &to_victim,
        "cd /etc; rm -rf hostname machine-id; mkdir -p hostname/x machine-id .emergent.partial",
        "mv /etc /old; ln -s /old /etc",
        "rm /etc; dd if=/dev/zero of=/workspace/full bs=1M 2>/dev/null; true",
    ] {
        run(&subject.provider, spec.id, hostile).await.ok();
        let (taken, copy, _) = copied(&subject, &spec).await;
        assert_eq!(run(&subject.provider, copy.id, "uname -n").await.ok(), copy.id.hostname(), "{hostile}");
        subject.provider.delete_snapshot(taken.id).await.unwrap();
        subject.provider.destroy(copy.id).await.unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    }
    subject.remove(spec.id).await;
}

/// A sandbox whose disk is a folder cannot be copied, and a host without disk files cannot restore one.
#[tokio::test]
async fn a_disk_that_is_a_folder_is_not_copied() {
    let (subject, image) = made().await;
    let taken = subject.provider.snapshot(SnapshotId::generate(), &image).await.unwrap();
    let withheld = Withheld { disk_images: true, ..Withheld::default() };
    let lacking = LocalProvider::withholding(subject.options(&[]), withheld);
    assert!(!lacking.capabilities().await.snapshots);
    assert!(subject.provider.capabilities().await.snapshots);
    let refused = lacking.restore(taken.id, &spec()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Unavailable { .. }), "{refused}");
    let folder = spec();
    lacking.create(&folder).await.unwrap();
    for provider in [&lacking, &*subject.provider] {
        let refused = provider.snapshot(SnapshotId::generate(), &folder).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Unsupported { .. }), "{refused}");
    }
    assert_eq!(lacking.list_snapshots().await.unwrap(), [ObservedSnapshot::Whole(taken.clone())]);
    lacking.delete_snapshot(taken.id).await.unwrap();
    lacking.destroy(folder.id).await.unwrap();
    subject.remove(image.id).await;
}
