//! Create, stop, resume, destroy; what is kept and what is found.

use std::time::Duration;

use crate::support::{self, provider_in, run, spec, subject};
use emergent_provider::{Health, ObservedSandbox, ObservedState, ProviderError, WorkspaceProvider};
use emergent_types::{DiskEnforcement, IsolationLevel, NetworkMode, Persistence, WorkspaceId};

fn observed(id: WorkspaceId, state: ObservedState) -> Vec<ObservedSandbox> {
    vec![ObservedSandbox { id, state }]
}

/// Proves: ORCH-02, TRADE-SELFHOST-3
#[tokio::test]
async fn a_sandbox_is_made_used_and_removed() {
    let subject = subject();
    let provider = &subject.provider;
    let spec = spec();
    assert_eq!(provider.list().await.unwrap(), []);
    assert_eq!(provider.capabilities().await.startup_ms, None);

    let made = provider.create(&spec).await.unwrap();
    assert_eq!(made.isolation, IsolationLevel::Container);
    assert_eq!(made.network, NetworkMode::Isolated);
    assert_eq!(made.persistence, Persistence::Full);
    assert_eq!(made.disk_enforcement, DiskEnforcement::Hard);
    assert!(made.warnings.iter().any(|warning| warning.contains("weakest")), "{:?}", made.warnings);
    assert!(provider.capabilities().await.startup_ms.is_some());
    assert_eq!(provider.list().await.unwrap(), observed(spec.id, ObservedState::Running));
    assert_eq!(run(provider, spec.id, "echo hello").await.ok(), "hello");
    let steps: Vec<_> = provider.latest_launch().iter().map(|timing| timing.step).collect();
    assert_eq!(steps, crate::account::launch_steps());

    provider.destroy(spec.id).await.unwrap();
    provider.destroy(spec.id).await.unwrap();
    assert!(matches!(provider.connect(spec.id).await.err(), Some(ProviderError::NotFound { .. })));
    assert_eq!(provider.list().await.unwrap(), []);
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_second_create_finds_the_first() {
    let subject = subject();
    let provider = &subject.provider;
    let spec = spec();
    let first = provider.create(&spec).await.unwrap();
    run(provider, spec.id, "echo here > /run/mark").await.ok();
    assert_eq!(provider.create(&spec).await.unwrap(), first);
    assert_eq!(provider.resume(&spec).await.unwrap(), first);
    assert_eq!(run(provider, spec.id, "cat /run/mark").await.ok(), "here");
    provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn stop_and_resume_keep_the_disk_and_nothing_else() {
    let subject = subject();
    let provider = &subject.provider;
    let spec = spec();
    provider.create(&spec).await.unwrap();
    let places = "/workspace /home/user /root /etc /opt /var/lib /srv /mnt /data";
    let volatile = "/tmp /run /dev/shm";
    let write = format!("mkdir /data; for d in {places} {volatile}; do echo $d > $d/kept || exit 1; done");
    run(provider, spec.id, &write).await.ok();
    run(provider, spec.id, "echo 127.0.0.9 added >> /etc/hosts; chown user:user /workspace/kept").await.ok();
    let machine_id = run(provider, spec.id, "cat /etc/machine-id").await.ok();

    provider.stop(spec.id).await.unwrap();
    provider.stop(spec.id).await.unwrap();
    assert_eq!(provider.list().await.unwrap(), observed(spec.id, ObservedState::Stopped));
    assert!(matches!(provider.connect(spec.id).await.err(), Some(ProviderError::NotRunning { .. })));

    let resumed = provider.resume(&spec).await.unwrap();
    assert_eq!(resumed.isolation, IsolationLevel::Container);
    assert_eq!(provider.list().await.unwrap(), observed(spec.id, ObservedState::Running));
    let read = format!("for d in {places}; do cat $d/kept || exit 1; done");
    assert_eq!(
        run(provider, spec.id, &read).await.ok().split_whitespace().collect::<Vec<_>>().join(" "),
        places
    );
    let gone = format!("for d in {volatile}; do test ! -e $d/kept || exit 1; done");
    run(provider, spec.id, &gone).await.ok();
    assert_eq!(run(provider, spec.id, "grep -c added /etc/hosts").await.ok(), "1");
    assert_eq!(run(provider, spec.id, "stat -c %U /workspace/kept").await.ok(), "user");
    assert_eq!(run(provider, spec.id, "cat /etc/machine-id").await.ok(), machine_id);

    provider.stop(spec.id).await.unwrap();
    provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let subject = subject();
    let spec = spec();
    let is_not_found =
        |error: ProviderError| matches!(error, ProviderError::NotFound { id, .. } if id == spec.id);
    assert!(is_not_found(subject.provider.resume(&spec).await.unwrap_err()));
    assert!(is_not_found(subject.provider.stop(spec.id).await.unwrap_err()));
    assert!(is_not_found(subject.provider.connect(spec.id).await.err().unwrap()));
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_new_server_finds_what_the_old_one_made() {
    let subject = subject();
    let (running, stopped) = (spec(), spec());
    subject.provider.create(&running).await.unwrap();
    subject.provider.create(&stopped).await.unwrap();
    subject.provider.stop(stopped.id).await.unwrap();

    let restarted = subject.restarted();
    let mut expected = observed(running.id, ObservedState::Running);
    expected.extend(observed(stopped.id, ObservedState::Stopped));
    assert_eq!(restarted.list().await.unwrap(), expected);
    assert_eq!(run(&restarted, running.id, "echo still").await.ok(), "still");
    restarted.resume(&stopped).await.unwrap();
    assert_eq!(run(&restarted, stopped.id, "echo again").await.ok(), "again");

    // Another installation on the same host sees nothing of it and touches nothing of it.
    let other = support::subject();
    assert_eq!(other.provider.list().await.unwrap(), []);
    other.provider.destroy(running.id).await.unwrap();
    assert_eq!(run(&restarted, running.id, "echo still").await.ok(), "still");

    restarted.destroy(running.id).await.unwrap();
    restarted.destroy(stopped.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_data_folder_may_have_a_long_path() {
    let subject = subject();
    let deep = subject.data_dir.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let provider = provider_in(deep, subject.installation, &[]);
    let spec = spec();
    provider.create(&spec).await.unwrap();
    assert_eq!(run(&provider, spec.id, "echo far").await.ok(), "far");
    provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

/// Proves: RISK-DOWNTIME-2
#[tokio::test]
async fn a_real_sandbox_says_whether_the_host_is_fit() {
    let subject = subject();
    assert_eq!(subject.provider.health().await, Health::Healthy);
    assert_eq!(subject.provider.list().await.unwrap(), []);
    subject.assert_nothing_left();
    let free = subject.provider.capabilities().await.free.unwrap();
    assert!(free.cpus > 0, "{free:?}");
    assert!(free.memory.unwrap().bytes() > 0 && free.disk.unwrap().bytes() > 0, "{free:?}");
}

#[tokio::test]
async fn an_agent_that_died_leaves_a_stopped_sandbox() {
    let subject = subject();
    let provider = &subject.provider;
    let spec = spec();
    provider.create(&spec).await.unwrap();
    run(provider, spec.id, "echo kept > /workspace/file").await.ok();
    let init = support::init_pid(&subject, spec.id);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(init).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    while provider.list().await.unwrap() != observed(spec.id, ObservedState::Stopped) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(matches!(provider.connect(spec.id).await.err(), Some(ProviderError::NotRunning { .. })));
    // At once: the disk of the dead one may still be mounted.
    provider.resume(&spec).await.unwrap();
    assert_eq!(run(provider, spec.id, "cat /workspace/file").await.ok(), "kept");
    provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}
