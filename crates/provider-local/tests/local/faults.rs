//! `kill -9` at any moment, and other mishaps: what is left is seen, and what is seen can be
//! removed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Subject, census, made, program, run, spec, subject};
use emergent_provider::{ObservedState, ProviderError, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LaunchStep, LocalProvider, Options};
use emergent_types::WorkspaceId;
use rustix::process::{Pid, Signal, kill_process};

/// The steps at which the helper runs.
fn helper_steps() -> impl Iterator<Item = LaunchStep> {
    crate::account::launch_steps()
        .into_iter()
        .filter(|step| !matches!(step, LaunchStep::DiskCopy | LaunchStep::HelperProcess))
}

#[tokio::test]
async fn a_create_whose_helper_is_killed_leaves_nothing() {
    let subject = subject();
    for step in helper_steps() {
        let provider = subject.with_helper(&["--die-at", step.as_str()]);
        let error = provider.create(&spec()).await.unwrap_err();
        assert!(matches!(&error, ProviderError::Step { step: "launch helper", .. }), "{step}: {error}");
        assert!(error.is_retryable());
        assert_eq!(provider.list().await.unwrap(), [], "{step}");
        subject.assert_nothing_left();
    }
}

#[tokio::test]
async fn a_resume_whose_helper_is_killed_keeps_the_disk() {
    let subject = subject();
    let good = &subject.provider;
    for step in helper_steps() {
        let dying = subject.with_helper(&["--die-at", step.as_str()]);
        let spec = spec();
        good.create(&spec).await.unwrap();
        run(good, spec.id, "echo kept > /workspace/file").await.ok();
        good.stop(spec.id).await.unwrap();

        dying.resume(&spec).await.unwrap_err();
        let listed = dying.list().await.unwrap();
        assert_eq!(listed.len(), 1, "{step}");
        assert_eq!(listed[0].state, ObservedState::Stopped, "{step}");
        good.resume(&spec).await.unwrap();
        assert_eq!(run(good, spec.id, "cat /workspace/file").await.ok(), "kept", "{step}");
        good.destroy(spec.id).await.unwrap();
        subject.assert_nothing_left();
    }
}

/// A server in a process of its own, and what it has made so far.
struct Server {
    process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(subject: &Subject, workspaces: &[WorkspaceId]) -> Self {
        let mut process = Command::new(program())
            .arg("server")
            .arg(subject.data_dir.path())
            .arg(subject.installation.to_string())
            .args(workspaces.iter().map(WorkspaceId::to_string))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    fn wait_for_next(&mut self) -> WorkspaceId {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn sandboxes_outlive_a_server_that_is_killed() {
    let subject = subject();
    let ids: Vec<_> = (0..3).map(|_| WorkspaceId::generate()).collect();
    let mut server = Server::start(&subject, &ids);
    for id in &ids {
        assert_eq!(server.wait_for_next(), *id);
    }
    server.kill();
    let listed = subject.provider.list().await.unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|sandbox| sandbox.state == ObservedState::Running), "{listed:?}");
    for id in ids {
        assert_eq!(run(&subject.provider, id, "echo alive").await.ok(), "alive");
        subject.provider.destroy(id).await.unwrap();
    }
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_server_killed_in_the_middle_of_a_launch_leaves_what_list_shows() {
    let subject = subject();
    for round in 0..12 {
        let ids: Vec<_> = (0..8).map(|_| WorkspaceId::generate()).collect();
        let mut server = Server::start(&subject, &ids);
        let first = server.wait_for_next();
        // Somewhere in the second launch, each time a little later.
        std::thread::sleep(Duration::from_millis(4 * round));
        server.kill();
        // The helper is killed with it, and what it had started stays where it is seen.
        let provider = subject.restarted();
        let listed = provider.list().await.unwrap();
        assert!(listed.iter().any(|sandbox| sandbox.id == first && sandbox.state == ObservedState::Running));
        assert!(listed.iter().all(|sandbox| ids.contains(&sandbox.id)));
        for sandbox in listed {
            provider.destroy(sandbox.id).await.unwrap();
        }
        assert_eq!(provider.list().await.unwrap(), []);
        subject.assert_nothing_left();
    }
}

#[tokio::test]
async fn a_helper_does_not_outlive_its_server() {
    let subject = subject();
    let id = WorkspaceId::generate();
    let server = Server::start(&subject, &[id]);
    let deadline = Instant::now() + Duration::from_secs(20);
    let helper = loop {
        let found = census(subject.installation, subject.data_dir.path()).into_iter().find_map(|line| {
            let line = line.strip_prefix("process ")?;
            line.contains("--workspace").then(|| line.split(':').next()?.parse::<i32>().ok())?
        });
        match found {
            Some(pid) => break Some(pid),
            None if Instant::now() > deadline => break None,
            // The launch may be over between two looks; the sandbox is there then.
            None if subject.state_folder(id).join("agent.sock").exists() => break None,
            None => std::thread::yield_now(),
        }
    };
    server.kill();
    if let Some(helper) = helper {
        let gone = || {
            kill_process(Pid::from_raw(helper).unwrap(), Signal::CONT).is_err()
                || !String::from_utf8_lossy(
                    &std::fs::read(format!("/proc/{helper}/cmdline")).unwrap_or_default(),
                )
                .contains("--workspace")
        };
        while !gone() {
            assert!(Instant::now() < deadline, "the helper {helper} lives on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for sandbox in subject.provider.list().await.unwrap() {
        subject.provider.destroy(sandbox.id).await.unwrap();
    }
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_create_that_nobody_waits_for_can_be_removed() {
    let subject = subject();
    for delay in [0, 5, 15, 30, 60] {
        let spec = spec();
        let waiting =
            tokio::time::timeout(Duration::from_millis(delay), subject.provider.create(&spec)).await;
        // Comes after the create that is still under way, if it is.
        subject.provider.destroy(spec.id).await.unwrap();
        assert_eq!(subject.provider.list().await.unwrap(), [], "after {delay} ms: {waiting:?}");
        subject.assert_nothing_left();
    }
}

#[tokio::test]
async fn an_agent_that_ends_at_once_is_not_running() {
    let subject = subject();
    let agent = AgentSource::Bytes(b"#!/bin/false\n"[..].into());
    let provider = LocalProvider::new(Options { agent, ..subject.options(&[]) });
    let spec = spec();
    match provider.create(&spec).await {
        // It may end while the helper is still looking, or a moment later.
        Err(error) => assert!(matches!(&error, ProviderError::Step { step: "agent start", .. }), "{error}"),
        Ok(_) => {
            while provider.list().await.unwrap()[0].state != ObservedState::Stopped {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(matches!(provider.connect(spec.id).await.err(), Some(ProviderError::NotRunning { .. })));
        }
    }
    provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_helper_that_is_not_there_is_named() {
    let subject = subject();
    let helper = HelperCommand { program: "/nonexistent/helper".into(), args: Vec::new() };
    let provider = LocalProvider::new(Options { helper, ..subject.options(&[]) });
    let error = provider.create(&spec()).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/helper"), "{error}");
    assert!(!provider.health().await.is_healthy());
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_torn_state_folder_is_partial_and_can_be_removed() {
    let (subject, spec) = made().await;
    std::fs::write(subject.state_folder(spec.id).join("sandbox.json"), "{\"installation\":").unwrap();
    assert_eq!(subject.only_state().await, ObservedState::Partial);
    subject.remove(spec.id).await;
}

#[tokio::test]
async fn a_half_made_sandbox_is_made_again() {
    let (subject, spec) = made().await;
    std::fs::remove_file(subject.state_folder(spec.id).join("sandbox.json")).unwrap();
    subject.provider.create(&spec).await.unwrap();
    assert_eq!(run(&subject.provider, spec.id, "echo new").await.ok(), "new");
    subject.remove(spec.id).await;
}
