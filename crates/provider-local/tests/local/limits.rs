//! Limits are walls: what happens at each of them, and that the sandbox lives on.

use std::os::unix::fs::MetadataExt;

use crate::support::{run, spec, spec_with, subject};
use emergent_provider::{ProviderError, WorkspaceProvider};
use emergent_types::{ByteSize, Cpu, ResourceLimits};

const LIMITS: ResourceLimits = ResourceLimits {
    cpu: Cpu::from_millis(1000),
    memory: ByteSize::from_mib(96),
    disk: ByteSize::from_mib(64),
};

/// Where the sandbox reads how often a process was killed for want of memory.
const OOM_KILLS: &str = "cat /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events 2>/dev/null \
                         | grep '^oom_kill ' | cut -d' ' -f2";

/// Proves: LIFE-18, RISK-RESOURCES-2
#[tokio::test]
async fn a_full_disk_is_a_full_disk() {
    let subject = subject();
    let spec = spec_with(LIMITS);
    subject.provider.create(&spec).await.unwrap();
    let ran = run(&subject.provider, spec.id, "dd if=/dev/zero of=/workspace/big bs=1M").await;
    assert!(ran.text.contains("No space left on device"), "{}", ran.text);
    // All of it counts, not the workspace alone.
    let ran = run(&subject.provider, spec.id, "dd if=/dev/zero of=/etc/big bs=1M").await;
    assert!(ran.text.contains("No space left on device"), "{}", ran.text);
    run(&subject.provider, spec.id, "sync").await.ok();
    let image = std::fs::metadata(subject.state_folder(spec.id).join("disk.img")).unwrap();
    assert_eq!(image.len(), LIMITS.disk.bytes());
    assert!(image.blocks() * 512 <= LIMITS.disk.bytes() + (1 << 20), "{} blocks", image.blocks());

    run(&subject.provider, spec.id, "rm /workspace/big /etc/big && echo room > /workspace/small").await.ok();
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn files_run_out_before_the_hosts_inodes_do() {
    let subject = subject();
    let spec = spec_with(LIMITS);
    subject.provider.create(&spec).await.unwrap();
    let script = "python3 -c '
import os
made = 0
try:
    while made < 100000:
        open(f\"/workspace/{made}\", \"x\").close()
        made += 1
except OSError as error:
    print(error.strerror, made <= 4096)
'";
    assert_eq!(run(&subject.provider, spec.id, script).await.ok(), "No space left on device True");
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

/// Proves: LIFE-17, RISK-RESOURCES-2
#[tokio::test]
async fn want_of_memory_kills_the_process_and_not_the_sandbox() {
    let subject = subject();
    let spec = spec_with(LIMITS);
    subject.provider.create(&spec).await.unwrap();
    assert_eq!(run(&subject.provider, spec.id, OOM_KILLS).await.ok(), "0");
    run(&subject.provider, spec.id, "sleep 300 >/dev/null 2>&1 & echo $! > /run/bystander").await.ok();

    let ran = run(&subject.provider, spec.id, "tail /dev/zero; echo status $?").await;
    assert!(ran.text.contains("status 137"), "{ran:?}");
    assert_eq!(run(&subject.provider, spec.id, OOM_KILLS).await.ok(), "1");
    run(&subject.provider, spec.id, "kill -0 $(cat /run/bystander)").await.ok();

    // Memory file systems are memory, and smaller than all of it.
    let ran = run(&subject.provider, spec.id, "dd if=/dev/zero of=/tmp/big bs=1M; rm /tmp/big").await;
    assert!(ran.text.contains("No space left on device"), "{}", ran.text);
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_fork_bomb_stays_inside() {
    let subject = subject();
    let spec = spec_with(ResourceLimits { memory: ByteSize::from_gib(1), ..LIMITS });
    subject.provider.create(&spec).await.unwrap();
    let script = "python3 -c '
import os, time
made = 0
try:
    while made < 20000:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError as error:
    print(error.strerror, 3000 < made < 4096, flush=True)
    os.kill(0, 9)
'";
    let ran = run(&subject.provider, spec.id, script).await;
    assert!(ran.text.contains("Resource temporarily unavailable True"), "{ran:?}");
    // Destroyed in the middle of the next one.
    let bomb = "python3 -c '
import os
while True:
    try: os.fork()
    except OSError: pass
'";
    let provider = subject.provider.clone();
    let id = spec.id;
    let bombing = tokio::spawn(async move { run(&provider, id, bomb).await });
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    subject.provider.destroy(spec.id).await.unwrap();
    let _ = bombing.await;
    subject.assert_nothing_left();
}

/// Proves: LIFE-16, RISK-RESOURCES-2
#[tokio::test]
async fn processor_time_is_shared_out() {
    let subject = subject();
    let spec = spec_with(ResourceLimits { cpu: Cpu::from_millis(200), ..LIMITS });
    subject.provider.create(&spec).await.unwrap();
    let script = "python3 -c '
import time
wall, used = time.monotonic(), time.process_time()
while time.monotonic() - wall < 2: pass
print((time.process_time() - used) / (time.monotonic() - wall) < 0.3)
'";
    assert_eq!(run(&subject.provider, spec.id, script).await.ok(), "True");
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn the_least_limits_are_enough_to_work_with() {
    let subject = subject();
    let spec = spec_with(ResourceLimits {
        cpu: Cpu::from_millis(100),
        memory: ByteSize::from_mib(32),
        disk: ByteSize::from_mib(16),
    });
    subject.provider.create(&spec).await.unwrap();
    run(&subject.provider, spec.id, "dd if=/dev/zero of=/workspace/file bs=1M count=4 && bash -c true")
        .await
        .ok();
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

/// Proves: CONSTRAINT-4
#[tokio::test]
async fn what_cannot_be_enforced_is_refused_and_leaves_nothing() {
    let subject = subject();
    let mut wanted = spec();
    wanted.limits.memory = ByteSize::from_mib(1);
    let refused = subject.provider.create(&wanted).await.unwrap_err();
    assert!(matches!(refused, ProviderError::NotEnforceable { what: "memory", .. }), "{refused}");
    assert_eq!(subject.provider.list().await.unwrap(), []);
    subject.assert_nothing_left();
}
