//! What a sandbox uses, as its host counts it. A provider that cannot tell does not run this part.

use std::time::Duration;

use super::subject::eventually;
use super::{Subject, TestSandbox};
use crate::Usage;

/// Enough to stand out from what a sandbox needs for itself.
const ALLOCATED: u64 = 64 << 20;

async fn usage(subject: &Subject, sandbox: &TestSandbox) -> Usage {
    let usage = subject.provider.usage(sandbox.id()).await.expect("usage works");
    usage.expect("this provider knows what a sandbox uses")
}

/// Only time that was really spent is counted, and none of it is forgotten.
pub async fn a_busy_loop_takes_processor_time(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let before = usage(subject, &sandbox).await.cpu_time.expect("processor time is known");
    let spent: f64 = sandbox
        .sh("python3 -c 'import time\nwhile time.process_time() < 1: pass\nprint(time.process_time())'")
        .await
        .parse()
        .expect("a number");
    let after = usage(subject, &sandbox).await.cpu_time.expect("processor time is known");
    let counted = after.saturating_sub(before);
    // A kernel of the sandbox's own counts a little differently than the host's.
    assert!(counted >= Duration::from_secs_f64(spent * 0.5), "{counted:?} of {spent} s");
    sandbox.sh("sleep 1").await;
    let asleep = usage(subject, &sandbox).await.cpu_time.expect("processor time is known");
    assert!(asleep >= after, "time is not taken back: {asleep:?} after {after:?}");
    assert!(asleep - after < Duration::from_millis(900), "sleeping took {:?}", asleep - after);
}

/// Memory that a program touches counts, and does not when it is gone.
pub async fn an_allocation_takes_memory(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let before = usage(subject, &sandbox).await.memory_bytes.expect("memory is known");
    assert!(before < sandbox.spec.limits.memory.bytes(), "{before} before anything was done");
    let holder = sandbox
        .client
        .start_process(&emergent_agent_client::CommandSpec::shell(format!(
            "exec python3 -c 'import time\nx = b\"x\" * {ALLOCATED}\nopen(\"held\", \"w\").close()\ntime.sleep(600)'"
        )))
        .await
        .expect("starts");
    sandbox.sh("until [ -e held ]; do sleep 0.05; done").await;
    let grown = usage(subject, &sandbox).await.memory_bytes.expect("memory is known");
    assert!(grown >= before + ALLOCATED * 9 / 10, "{before} before, {grown} with {ALLOCATED} more");
    sandbox.client.signal_process(holder, 9).await.expect("is there");
    eventually("the memory is given back", || async {
        let now = usage(subject, &sandbox).await.memory_bytes.expect("memory is known");
        now < grown - ALLOCATED / 2
    })
    .await;
}

/// What is written takes up room, and what is removed gives it back, where the disk is one that can be looked
/// at at once.
pub async fn what_is_written_takes_room(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let Some(before) = usage(subject, &sandbox).await.disk_bytes else { return };
    sandbox.sh("head -c 16M /dev/urandom > written && sync written && sync").await;
    eventually("what was written is counted", || async {
        usage(subject, &sandbox).await.disk_bytes.is_some_and(|now| now >= before + (15 << 20))
    })
    .await;
    let now = usage(subject, &sandbox).await.disk_bytes.expect("known before");
    assert!(now <= sandbox.spec.limits.disk.bytes(), "{now} of {}", sandbox.spec.limits.disk);
    sandbox.sh("rm written").await;
    eventually("there is room again", || async {
        usage(subject, &sandbox).await.disk_bytes.is_some_and(|now| now < before + (8 << 20))
    })
    .await;
}

/// Nothing is told of what does not run.
pub async fn a_stopped_sandbox_uses_nothing(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    assert!(usage(subject, &sandbox).await.processes != Some(0), "the agent runs");
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    let stopped = subject.provider.usage(sandbox.id()).await;
    assert!(!matches!(stopped, Ok(Some(_))), "{stopped:?}");
    let missing = subject.provider.usage(emergent_types::WorkspaceId::generate()).await;
    assert!(!matches!(missing, Ok(Some(_))), "{missing:?}");
}
