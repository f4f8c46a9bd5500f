//! What the kernel counts for the whole machine or for an account: a sandbox that takes all it can
//! get leaves enough for the others and for the host.

use crate::support::{made, run, spec};
use emergent_provider::WorkspaceProvider;
use rustix::fs::inotify;

/// Opens as many as it gets, keeps them, says how many, and waits.
fn taking(what: &str, call: &str) -> String {
    format!(
        "nohup python3 -c '
import ctypes, os, time
taken = 0
try:
    while taken < 4000:
        {call}
        taken += 1
except OSError:
    pass
open(\"/workspace/{what}\", \"w\").write(str(taken))
time.sleep(600)
' >/dev/null 2>&1 &
for _ in $(seq 600); do test -s /workspace/{what} && break; sleep 0.05; done; cat /workspace/{what}"
    )
}

const WATCH: &str = "
        if ctypes.CDLL(None).inotify_init() < 0: raise OSError";
const TERMINAL: &str = "os.openpty()";

#[tokio::test]
async fn watches_are_left_for_others() {
    let (subject, greedy) = made().await;
    let other = spec();
    subject.provider.create(&other).await.unwrap();
    let limit: u32 =
        std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap().trim().parse().unwrap();
    let take = taking("watches", WATCH);
    let taken: u32 = run(&subject.provider, greedy.id, &take).await.ok().parse().unwrap();
    assert!(taken > 0 && taken <= limit, "{taken} of {limit}");
    // For this account, which made the sandbox, and for another sandbox.
    inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let left: u32 = run(&subject.provider, other.id, &take).await.ok().parse().unwrap();
    assert_eq!(left, taken, "another sandbox gets less");
    subject.provider.destroy(other.id).await.unwrap();
    subject.remove(greedy.id).await;
}

#[tokio::test]
async fn terminals_are_left_for_others() {
    let (subject, greedy) = made().await;
    let other = spec();
    subject.provider.create(&other).await.unwrap();
    let taken = run(&subject.provider, greedy.id, &taking("terminals", TERMINAL)).await.ok();
    assert_eq!(taken, "256");
    let opened = run(&subject.provider, other.id, "python3 -c 'import os; os.openpty(); print(True)'").await;
    assert_eq!(opened.ok(), "True");
    subject.provider.destroy(other.id).await.unwrap();
    subject.remove(greedy.id).await;
}
