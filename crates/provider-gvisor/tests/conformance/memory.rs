//! Limits that gVisor's kernel does not uphold by itself: who is hit, and what survives.

use std::time::{Duration, Instant};

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::ObservedState;
use emergent_provider::conformance::{Subject, TestSandbox};

fn check(test: impl for<'a> AsyncFnOnce(&'a Subject) + 'static) {
    Subject::run(crate::subject, |subject| Box::pin(async move { test(subject).await }));
}

/// Some megabytes at a time, until there is no more.
const GRADUAL: &str = "python3 -c '
import time
kept = []
while True:
    kept.append(bytearray(4 << 20))
    time.sleep(0.02)'";

/// As fast as the kernel gives it, in several processes at once, four times the limit.
const BURST: &str = "for i in 1 2 3 4; do python3 -c 'x = bytearray(256 << 20); input()' & done; wait";

/// What grows little by little is caught, again and again, and nothing else is hit.
#[test]
fn a_gradual_allocator_is_caught_each_time() {
    check(async |subject| {
        let sandbox = subject.sandbox().await;
        let bystander = sandbox.client.start_process(&CommandSpec::shell("sleep 600")).await;
        bystander.expect("starts");
        for _ in 0..3 {
            let outcome = sandbox.run(GRADUAL).await;
            assert!(outcome.exit.oom_killed && outcome.exit.code == 137, "{outcome:?}");
        }
        let listed = sandbox.client.list_processes().await.expect("lists");
        assert!(listed.iter().all(|process| process.exit.is_none()), "a bystander died: {listed:?}");
        assert_eq!(sandbox.sh("echo alive").await, "alive");
    });
}

/// A burst is caught, or it ends the sandbox, which then says why, and its disk is as it was.
#[test]
fn a_burst_costs_the_processes_at_most() {
    check(async |subject| {
        let sandbox = subject.sandbox().await;
        sandbox.sh("echo kept > file; sync").await;
        let options = ExecOptions { timeout: Duration::from_secs(30), ..ExecOptions::default() };
        match sandbox.client.exec(&CommandSpec::shell(BURST), options).await {
            Ok(outcome) => assert!(outcome.exit.oom_killed, "{outcome:?}"),
            Err(error) => {
                eprintln!("the whole sandbox was lost: {error}");
                told_of_memory(subject, &sandbox).await;
                subject.provider.stop(sandbox.id()).await.expect("clears away what is left");
                subject.resume(&sandbox).await;
            }
        }
        assert_eq!(sandbox.sh("cat file").await, "kept");
    });
}

/// What is written to /dev is memory that belongs to no process: whoever writes it is killed for it, and
/// nobody else.
#[test]
fn memory_in_dev_is_taken_back() {
    check(async |subject| {
        let sandbox = subject.sandbox().await;
        let bystander = sandbox.client.start_process(&CommandSpec::shell("sleep 600")).await;
        bystander.expect("starts");
        for file in ["/dev/filler", "/dev/folder/filler"] {
            let fill = format!("mkdir -p /dev/folder; head -c 1G /dev/zero > {file}");
            let outcome = sandbox.run(&fill).await;
            assert!(outcome.exit.oom_killed && outcome.exit.code == 137, "{outcome:?}");
            assert_eq!(sandbox.sh("find /dev -xdev -type f").await, "", "its memory is free again");
        }
        let listed = sandbox.client.list_processes().await.expect("lists");
        assert!(listed.iter().all(|process| process.exit.is_none()), "a bystander died: {listed:?}");
        assert_eq!(sandbox.sh("echo alive > /dev/null; ls /dev/null").await, "/dev/null");
    });
}

/// A bomb that gets around the limit on its account's processes, in user namespaces of its own, is ended as a
/// whole; the sandbox and what else runs in it go on.
#[test]
fn a_bomb_in_namespaces_of_its_own_is_ended() {
    check(async |subject| {
        let sandbox = subject.sandbox().await;
        let bystander = sandbox.client.start_process(&CommandSpec::shell("sleep 600")).await;
        bystander.expect("starts");
        let many = "for j in $(seq 1 200); do sleep 600 & done; wait";
        let many =
            format!("for i in 1 2 3 4; do unshare --user --map-root-user bash -c '{many}' & done; wait");
        let options = ExecOptions { timeout: Duration::from_secs(30), ..ExecOptions::default() };
        let outcome = sandbox.client.exec(&CommandSpec::shell(many), options).await.expect("answers");
        assert!(!outcome.timed_out && outcome.exit.code != 0, "{outcome:?}");
        assert_eq!(sandbox.sh("echo alive").await, "alive");
        let listed = sandbox.client.list_processes().await.expect("lists");
        assert!(listed.iter().all(|process| process.exit.is_none()), "a bystander died: {listed:?}");
    });
}

/// The wall itself: nothing inside stands before it once init has stopped looking.
#[test]
fn a_sandbox_that_reaches_its_wall_says_so() {
    check(async |subject| {
        let sandbox = subject.sandbox().await;
        sandbox.sh("echo kept > file; sync").await;
        let hog = "kill -STOP 1; python3 -c 'x = bytearray(1 << 30); input()'";
        let outcome = sandbox.client.exec(&CommandSpec::shell(hog), ExecOptions::default()).await;
        outcome.expect_err("its sandbox is gone");
        told_of_memory(subject, &sandbox).await;
        subject.provider.stop(sandbox.id()).await.expect("clears away what is left");
        subject.resume(&sandbox).await;
        assert_eq!(sandbox.sh("cat file").await, "kept");
    });
}

/// An end that memory has nothing to do with is not blamed on it.
#[test]
fn a_killed_init_is_no_want_of_memory() {
    check(async |subject| {
        let sandbox = subject.sandbox().await;
        let killer = CommandSpec::shell("kill -9 1; sleep 60");
        let outcome = sandbox.client.exec(&killer, ExecOptions::default()).await;
        outcome.expect_err("its sandbox is gone");
        told_of_its_end(subject, &sandbox).await;
        assert!(!subject.provider.ended_for_want_of_memory(sandbox.id()).await);
    });
}

/// Before that there is nothing to blame on anything.
async fn told_of_its_end(subject: &Subject, sandbox: &TestSandbox) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let listed = subject.provider.list().await.expect("lists");
        let state = listed.iter().find(|found| found.id == sandbox.id()).map(|found| found.state);
        if state == Some(ObservedState::Stopped) {
            return;
        }
        assert!(Instant::now() < deadline, "it is {state:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Docker hears of the end a moment after the stream has broken.
async fn told_of_memory(subject: &Subject, sandbox: &TestSandbox) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !subject.provider.ended_for_want_of_memory(sandbox.id()).await {
        assert!(Instant::now() < deadline, "nobody says why the sandbox ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
