//! What is left when something is killed, and that another server finds and removes it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_agent_client::CommandSpec;
use emergent_provider::conformance::{Subject, TestSandbox};
use emergent_provider::{ObservedState, WorkspaceProvider};
use emergent_provider_gvisor::{DirectProvider, network_id};
use emergent_test_support::{Census, Scope};
use emergent_types::{InstallationId, NetworkMode, WorkspaceId};

/// A server's provider, and what outlives it.
pub(crate) struct Server {
    pub(crate) subject: Subject,
    pub(crate) installation: InstallationId,
    pub(crate) data: Arc<tempfile::TempDir>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::of(InstallationId::generate(), Arc::new(crate::data_folder()))
    }

    fn of(installation: InstallationId, data: Arc<tempfile::TempDir>) -> Self {
        let provider = DirectProvider::new(crate::options(data.path(), installation));
        let subject = Subject::new(Arc::new(provider), Some("/workspace"), Arc::clone(&data));
        Self { subject, installation, data }
    }

    /// Another server on the same data.
    pub(crate) fn again(&self) -> Self {
        Self::of(self.installation, Arc::clone(&self.data))
    }

    /// Another one whose runsc does not list its sandboxes for as long as there is that file.
    pub(crate) fn again_without_sight(&self) -> (Self, PathBuf) {
        let data = Arc::clone(&self.data);
        let mut options = crate::options(data.path(), self.installation);
        let obstacle = data.path().join("obstacle");
        fs::write(&obstacle, "").unwrap();
        let (runsc, file) = (options.runsc.display(), obstacle.display());
        let script = format!(
            "case \"$*\" in *--format=json*) if test -e {file}; then exit 1; fi ;; esac; exec {runsc} \"$@\""
        );
        options.runsc = stand_in(data.path(), &script);
        let provider = DirectProvider::new(options);
        let subject = Subject::new(Arc::new(provider), Some("/workspace"), Arc::clone(&data));
        (Self { subject, installation: self.installation, data }, obstacle)
    }

    pub(crate) fn provider(&self) -> &dyn WorkspaceProvider {
        self.subject.provider.as_ref()
    }

    pub(crate) fn folder(&self, id: WorkspaceId) -> PathBuf {
        self.data.path().join("direct/sandboxes").join(id.to_string())
    }

    pub(crate) fn pid(&self, id: WorkspaceId) -> String {
        fs::read_to_string(self.folder(id).join("sandbox.pid")).unwrap().trim().to_owned()
    }

    pub(crate) async fn state(&self, id: WorkspaceId) -> Option<ObservedState> {
        let listed = self.provider().list().await.unwrap();
        listed.into_iter().find(|found| found.id == id).map(|found| found.state)
    }

    async fn comes_to(&self, id: WorkspaceId, state: ObservedState) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.state(id).await != Some(state) {
            assert!(Instant::now() < deadline, "it is {:?}", self.state(id).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// There is nothing of the installation on this machine.
    pub(crate) async fn has_left_nothing(&self) {
        assert_eq!(self.provider().list().await.unwrap(), []);
        let data_dir = self.data.path().to_owned();
        // The rules of the network stay for a moment after the last sandbox.
        let deadline = Instant::now() + Duration::from_secs(15);
        for id in [self.installation, network_id(self.installation)] {
            let look = || Census::take(&Scope::Installation { id, data_dir: data_dir.clone() });
            while !look().is_empty() {
                assert!(Instant::now() < deadline, "{}", look());
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        assert_eq!(fs::read_dir(data_dir.join("direct/sandboxes")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(data_dir.join("direct/runsc")).unwrap().count(), 0);
    }
}

pub(crate) fn kill(pids: &[String]) {
    assert!(Command::new("kill").arg("-9").args(pids).status().unwrap().success());
}

/// The process that serves a sandbox its files.
pub(crate) fn gofer(server: &Server, id: WorkspaceId) -> String {
    let bundle = format!("--bundle={}", server.folder(id).display());
    let of = |pid: &String| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    numbers
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .find(|pid| of(pid).starts_with("runsc-gofer") && of(pid).contains(&bundle))
        .unwrap()
}

pub(crate) async fn with_background(server: &Server) -> TestSandbox {
    let sandbox = server.subject.sandbox().await;
    sandbox.sh("echo kept > file; sync").await;
    sandbox.client.start_process(&CommandSpec::shell("sleep 600")).await.unwrap();
    sandbox
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_finds_what_runs() {
    let first = Server::new();
    let sandbox = with_background(&first).await;
    let id = sandbox.id();
    let second = first.again();
    // As if it had been killed: whatever it held is gone with it.
    drop(first);
    assert_eq!(second.state(id).await, Some(ObservedState::Running));
    let client = second.subject.client(&sandbox.spec);
    client.greet().await.unwrap();
    let processes = client.list_processes().await.unwrap();
    assert!(processes.len() == 1 && processes[0].exit.is_none(), "{processes:?}");
    second.provider().destroy(id).await.unwrap();
    second.has_left_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_sandbox_is_stopped_and_can_be_resumed() {
    for of_gofer in [false, true] {
        let server = Server::new();
        let sandbox = with_background(&server).await;
        let id = sandbox.id();
        kill(&[if of_gofer { gofer(&server, id) } else { server.pid(id) }]);
        server.comes_to(id, ObservedState::Stopped).await;
        assert!(!server.provider().ended_for_want_of_memory(id).await);
        server.provider().stop(id).await.unwrap();
        server.subject.resume(&sandbox).await;
        assert_eq!(sandbox.sh("cat file").await, "kept");
        server.provider().destroy(id).await.unwrap();
        server.has_left_nothing().await;
    }
}

/// Whatever a killed server or runsc has not written down any more, or has not removed.
#[tokio::test(flavor = "multi_thread")]
async fn remains_are_listed_and_removed() {
    let server = Server::new();
    assert!(server.provider().health().await.is_healthy());
    // The record is gone, and everything runs.
    let sandbox = with_background(&server).await;
    fs::remove_file(server.folder(sandbox.id()).join("workspace.json")).unwrap();
    assert_eq!(server.state(sandbox.id()).await, Some(ObservedState::Partial));
    server.provider().destroy(sandbox.id()).await.unwrap();
    server.has_left_nothing().await;

    // runsc has forgotten it, and everything runs.
    let sandbox = with_background(&server).await;
    let state = server.data.path().join("direct/runsc");
    for entry in fs::read_dir(&state).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_ne!(server.state(sandbox.id()).await, Some(ObservedState::Running));
    server.provider().destroy(sandbox.id()).await.unwrap();
    server.has_left_nothing().await;

    // A folder with nothing in it.
    let id = WorkspaceId::generate();
    fs::create_dir(server.folder(id)).unwrap();
    assert_eq!(server.state(id).await, Some(ObservedState::Partial));
    server.provider().destroy(id).await.unwrap();
    server.has_left_nothing().await;
}

/// A server that is killed at any moment of a create leaves what the next one can remove.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_is_cut_off_leaves_nothing_for_good() {
    let server = Server::new();
    assert!(server.provider().health().await.is_healthy());
    for pause_ms in [5, 15, 40, 80, 130, 200] {
        let spec = server.subject.spec();
        let (id, cut_off) = (spec.id, server.again());
        // In a runtime of its own, which goes with everything that it was about to do.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move { cut_off.subject.provider.create(&spec).await });
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        runtime.shutdown_background();
        // What a thread had begun goes on for a moment in this process, which is not killed.
        tokio::time::sleep(Duration::from_millis(500)).await;
        // The workspace, or the sandbox with which that server found out whether it can make any.
        let left = server.provider().list().await.unwrap();
        for found in left {
            server.provider().destroy(found.id).await.unwrap();
        }
        server.provider().destroy(id).await.unwrap();
        server.has_left_nothing().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_sandbox_goes_on() {
    let server = Server::new();
    let sandbox = with_background(&server).await;
    let id = sandbox.id();
    server.provider().suspend(id).await.unwrap();
    server.provider().suspend(id).await.unwrap();
    assert_eq!(server.state(id).await, Some(ObservedState::Suspended));
    server.provider().resume(&sandbox.spec).await.unwrap();
    assert_eq!(server.state(id).await, Some(ObservedState::Running));
    let processes = sandbox.client.list_processes().await.unwrap();
    assert!(processes.len() == 1 && processes[0].exit.is_none(), "{processes:?}");
    // And one that is suspended can be destroyed.
    server.provider().suspend(id).await.unwrap();
    server.provider().destroy(id).await.unwrap();
    assert!(server.provider().suspend(id).await.is_err());
    server.has_left_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_runsc_it_says_so() {
    let data = crate::data_folder();
    let mut options = crate::options(data.path(), InstallationId::generate());
    options.runsc = data.path().join("no-runsc");
    let provider = DirectProvider::new(options);
    let health = format!("{:?}", provider.health().await);
    assert!(health.contains("gVisor runtime not available") && health.contains("no-runsc"), "{health}");
    assert_eq!(provider.capabilities().await.networks, [NetworkMode::Isolated]);
    assert_eq!(provider.list().await.unwrap(), []);
}

/// A program in the place of runsc.
fn stand_in(folder: &Path, script: &str) -> PathBuf {
    let program = folder.join("runsc");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A release that cannot do what is asked of it is named with what it breaks.
#[tokio::test(flavor = "multi_thread")]
async fn too_old_a_runsc_is_named() {
    let data = crate::data_folder();
    let mut options = crate::options(data.path(), InstallationId::generate());
    let script = "case \"$*\" in *--version*) echo runsc version release-20220103.0 ;; *list*) echo null ;; \
                  *) echo unknown platform >&2; exit 1 ;; esac";
    options.runsc = stand_in(data.path(), script);
    let health = format!("{:?}", DirectProvider::new(options).health().await);
    assert!(health.contains("release-20220103.0 is too old") && health.contains("systrap"), "{health}");
}
