//! Making, stopping, resuming and removing sandboxes.

use std::time::Duration;

use emergent_agent_client::{AgentError, CommandSpec, ExecOptions};
use emergent_types::Persistence;

use super::Subject;
use super::subject::eventually;
use crate::{ObservedState, ProviderError};

async fn state_of(subject: &Subject, id: emergent_types::WorkspaceId) -> Option<ObservedState> {
    let listed = subject.provider.list().await.expect("list works");
    let mut found = listed.iter().filter(|observed| observed.id == id);
    let state = found.next().map(|observed| observed.state);
    assert!(found.next().is_none(), "{id} is listed twice");
    state
}

/// Proves: LIFE-01, ORCH-01
pub async fn a_created_sandbox_answers(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    assert_eq!(sandbox.sh("echo hello").await, "hello");
    assert!(!sandbox.sandbox.provider_id.is_empty());
}

/// A repeated create (a retry after a lost answer) gives the same sandbox, with its processes.
pub async fn create_is_idempotent(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("echo kept > marker").await;
    let again = subject.provider.create(&sandbox.spec).await.expect("create again");
    assert_eq!(again.provider_id, sandbox.sandbox.provider_id);
    assert_eq!(sandbox.sh("cat marker").await, "kept");
}

/// Proves: LIFE-11, LIFE-12
pub async fn stop_and_resume_keep_what_they_promise(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let full = sandbox.sandbox.persistence == Persistence::Full;
    sandbox.sh("mkdir -p deep/er && echo code > deep/er/file && chmod 751 deep/er/file").await;
    if full {
        sandbox.sh("echo home > ~/.profile-of-test; echo etc > /etc/of-test; mkdir /opt/data-of-test").await;
        sandbox.sh("echo gone > /tmp/of-test").await;
    }
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    let resumed = subject.resume(&sandbox).await;
    assert_eq!(resumed.isolation, sandbox.sandbox.isolation);
    assert_eq!(resumed.network, sandbox.sandbox.network);
    assert_eq!(sandbox.sh("cat deep/er/file; stat -c %a deep/er/file").await, "code\n751");
    if full {
        assert_eq!(
            sandbox.sh("cat ~/.profile-of-test /etc/of-test; ls -d /opt/data-of-test").await,
            "home\netc\n/opt/data-of-test"
        );
        assert_eq!(sandbox.sh("ls /tmp/of-test 2>/dev/null || echo none").await, "none");
    }
}

/// Nothing goes on running in a stopped sandbox.
pub async fn stop_ends_every_process(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let tick = "while :; do echo x >> ticks; sleep 0.05; done";
    sandbox.client.start_process(&CommandSpec::shell(tick)).await.expect("starts");
    sandbox.sh(&format!("setsid sh -c '{tick}' </dev/null >/dev/null 2>&1 &")).await;
    eventually("ticks", || async { sandbox.run("test -s ticks").await.exit.code == 0 }).await;
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    subject.resume(&sandbox).await;
    let count = || sandbox.sh("wc -c < ticks");
    let before = count().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(before, count().await, "something still ticks after stop and resume");
}

/// What stands still goes on as if nothing had been, over the connection that was open; and it can be stopped and
/// destroyed as it is. Who cannot do that says so.
pub async fn what_is_suspended_goes_on(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let (provider, id) = (&subject.provider, sandbox.id());
    if !provider.capabilities().await.suspend {
        for refused in [provider.suspend(id).await, provider.wake(id).await] {
            assert!(matches!(refused, Err(ProviderError::Unsupported { .. })), "{refused:?}");
        }
        return;
    }
    sandbox.client.start_process(&CommandSpec::shell("exec sleep 1000")).await.expect("starts");
    for _ in 0..2 {
        provider.suspend(id).await.expect("it stands still");
    }
    assert_eq!(state_of(subject, id).await, Some(ObservedState::Suspended));
    let clock = std::time::Instant::now();
    provider.wake(id).await.expect("it goes on");
    eprintln!("it went on within {:.1?}", clock.elapsed());
    provider.wake(id).await.expect("what runs, runs");
    assert_eq!(state_of(subject, id).await, Some(ObservedState::Running));
    let processes = sandbox.client.list_processes().await.expect("it answers");
    assert!(processes.len() == 1 && processes[0].exit.is_none(), "{processes:?}");
    sandbox.sh("echo kept > file").await;
    provider.suspend(id).await.expect("it stands still");
    provider.stop(id).await.expect("it is stopped as it is");
    let nobody = provider.wake(id).await;
    let is_nobody = matches!(nobody, Err(ProviderError::NotRunning { .. } | ProviderError::NotFound { .. }));
    assert!(is_nobody, "{nobody:?}");
    assert_eq!(state_of(subject, id).await, Some(ObservedState::Stopped), "nothing was started");
    subject.resume(&sandbox).await;
    assert_eq!(sandbox.sh("cat file").await, "kept");
    provider.suspend(id).await.expect("it stands still");
    provider.destroy(id).await.expect("it is destroyed as it is");
    assert_eq!(state_of(subject, id).await, None);
    assert!(matches!(provider.wake(id).await, Err(ProviderError::NotFound { .. })));
}

/// Stop and resume can be repeated.
pub async fn stop_and_resume_are_idempotent(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for _ in 0..2 {
        subject.provider.stop(sandbox.id()).await.expect("stop works");
        assert_eq!(state_of(subject, sandbox.id()).await, Some(ObservedState::Stopped));
    }
    for _ in 0..2 {
        subject.resume(&sandbox).await;
        assert_eq!(sandbox.sh("echo up").await, "up");
    }
}

/// What is not there cannot be resumed.
pub async fn resume_without_a_disk_is_not_found(subject: &Subject) {
    let spec = subject.spec();
    let error = subject.provider.resume(&spec).await.expect_err("nothing to resume");
    assert!(matches!(error, ProviderError::NotFound { .. }), "{error}");
    assert_eq!(state_of(subject, spec.id).await, None, "a failed resume made something");
}

/// A stopped sandbox says that it is stopped, at once.
pub async fn a_stopped_sandbox_cannot_be_connected_to(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    let refused = subject.provider.connect(sandbox.id()).await.err().expect("no stream");
    assert!(matches!(refused, ProviderError::NotRunning { .. }), "{refused}");
    let unknown = subject.provider.connect(subject.spec().id).await.err().expect("no stream");
    assert!(
        matches!(unknown, ProviderError::NotFound { .. } | ProviderError::NotRunning { .. }),
        "{unknown}"
    );
}

/// Proves: LIFE-08
pub async fn destroy_leaves_nothing_and_is_idempotent(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("head -c 8M /dev/zero > big").await;
    assert_eq!(state_of(subject, sandbox.id()).await, Some(ObservedState::Running));
    for _ in 0..2 {
        subject.provider.destroy(sandbox.id()).await.expect("destroy works");
        assert_eq!(state_of(subject, sandbox.id()).await, None);
    }
    let error = subject.provider.resume(&sandbox.spec).await.expect_err("its disk is gone");
    assert!(matches!(error, ProviderError::NotFound { .. }), "{error}");
}

/// Proves: LIFE-08
pub async fn destroy_of_a_stopped_sandbox_leaves_nothing(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    subject.provider.destroy(sandbox.id()).await.expect("destroy works");
    assert_eq!(state_of(subject, sandbox.id()).await, None);
}

/// A call in flight ends with an error soon after its sandbox is gone; it does not hang.
pub async fn destroy_while_busy_ends_the_call(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let client = sandbox.client.clone();
    let busy = tokio::spawn(async move {
        client.exec(&CommandSpec::shell("trap '' TERM; sleep 600"), ExecOptions::default()).await
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    subject.provider.destroy(sandbox.id()).await.expect("destroy works");
    let outcome = tokio::time::timeout(Duration::from_secs(10), busy).await.expect("the call ends");
    match outcome.expect("no panic") {
        Err(AgentError::Unreachable { .. }) => {}
        Ok(outcome) => assert_ne!(outcome.exit.code, 0),
        Err(error) => panic!("unexpected: {error}"),
    }
}

/// What exists is what is listed.
pub async fn list_shows_running_and_stopped(subject: &Subject) {
    let (one, two) = tokio::join!(subject.sandbox(), subject.sandbox());
    subject.provider.stop(two.id()).await.expect("stop works");
    assert_eq!(state_of(subject, one.id()).await, Some(ObservedState::Running));
    assert_eq!(state_of(subject, two.id()).await, Some(ObservedState::Stopped));
    assert_eq!(state_of(subject, subject.spec().id).await, None);
}

/// Sandboxes made at the same moment each have files of their own.
pub async fn concurrent_creates_do_not_disturb_each_other(subject: &Subject) {
    let sandboxes = futures::future::join_all((0..6).map(|_| subject.sandbox())).await;
    futures::future::join_all(sandboxes.iter().map(|sandbox| async move {
        let id = sandbox.id();
        sandbox.sh(&format!("echo {id} > who")).await;
    }))
    .await;
    for sandbox in &sandboxes {
        assert_eq!(sandbox.sh("cat who").await, sandbox.id().to_string());
    }
}

/// Whatever a cancelled create leaves is listed, and destroy removes it.
pub async fn a_cancelled_create_can_be_destroyed(subject: &Subject) {
    for delay_ms in [0, 1, 3, 6, 10, 20, 40, 80] {
        let spec = subject.spec();
        let create = subject.provider.create(&spec);
        let _ = tokio::time::timeout(Duration::from_millis(delay_ms), create).await;
        subject.provider.destroy(spec.id).await.expect("destroy works");
        assert_eq!(state_of(subject, spec.id).await, None, "after {delay_ms} ms");
    }
    // And the provider still works.
    assert_eq!(subject.sandbox().await.sh("echo fine").await, "fine");
}

/// Proves: ORCH-02
pub async fn capabilities_are_true_of_the_sandbox(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let capabilities = subject.provider.capabilities().await;
    assert_eq!(capabilities.isolation, sandbox.sandbox.isolation);
    assert_eq!(capabilities.persistence, Some(sandbox.sandbox.persistence));
    assert_eq!(capabilities.limits.disk, sandbox.sandbox.disk_enforcement);
    assert!(capabilities.networks.contains(&sandbox.sandbox.network));
    let startup = capabilities.startup_ms.expect("measured by now");
    assert!(startup.p50 <= startup.p95);
    assert!(subject.provider.health().await.is_healthy());
}
