//! A restart of the host: containers have ended, mounts are gone, and numbers of loop devices are others'. The next
//! server finds every workspace, and resumes it with its files.

use std::path::PathBuf;
use std::sync::Arc;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::conformance::Subject;
use emergent_provider::{ObservedSandbox, ObservedState, WorkspaceProvider};
use emergent_provider_gvisor::{EngineAddress, Runtime};
use emergent_test_support::TestDocker;
use emergent_types::{InstallationId, WorkspaceId};

use crate::loop_devices::{device_of, occupy, unmount_all};

/// What outlives a server.
struct Place {
    data: tempfile::TempDir,
    docker: TestDocker,
    installation: InstallationId,
}

impl Place {
    fn provider(&self) -> Arc<dyn WorkspaceProvider> {
        let engine = EngineAddress::new(self.docker.address());
        crate::provider_of(self.installation, engine, self.data.path(), Runtime::Runsc)
    }

    fn folder(&self, id: WorkspaceId) -> PathBuf {
        self.data.path().join("containers/gvisor").join(id.to_string())
    }

    /// The loop device of a workspace whose disk is mounted.
    fn device(&self, id: WorkspaceId) -> PathBuf {
        device_of(&self.folder(id)).expect("its disk is attached")
    }
}

#[test]
fn workspaces_come_back_whether_they_were_stopped_or_ran() {
    let docker = TestDocker::get();
    let data = docker.data_folder();
    let place = Arc::new(Place { data, docker, installation: InstallationId::generate() });
    let theirs = Arc::clone(&place);
    Subject::run(
        async move || Subject::new(place.provider(), Some("/workspace"), place),
        move |subject| Box::pin(async move { check(subject, &theirs).await }),
    );
}

async fn check(subject: &Subject, place: &Place) {
    let sandboxes = [subject.sandbox().await, subject.sandbox().await];
    for sandbox in &sandboxes {
        sandbox.sh("echo kept > file; sync").await;
    }
    let before = sandboxes.each_ref().map(|sandbox| place.device(sandbox.id()));
    let [stopped, running] = &sandboxes;
    subject.provider.stop(stopped.id()).await.expect("stop works");
    assert_eq!(device_of(&place.folder(stopped.id())), None);
    // Nobody has stopped the other one.
    let container = &*running.sandbox.provider_id;
    place.docker.docker(&["kill", container]);
    place.docker.docker(&["wait", container]);
    unmount_all(&place.folder(running.id()), &["root", "disk"]).await;

    let _others = occupy(&before).await;
    let next = Subject::new(place.provider(), Some("/workspace"), ());
    let listed = next.provider.list().await.expect("lists");
    for (sandbox, before) in sandboxes.iter().zip(&before) {
        let found = ObservedSandbox { id: sandbox.id(), state: ObservedState::Stopped };
        assert!(listed.contains(&found), "{listed:?}");
        next.provider.resume(&sandbox.spec).await.expect("resume works");
        assert_ne!(place.device(sandbox.id()), *before, "that one is in use");
        let read = CommandSpec::shell("cat file");
        let read = next.client(&sandbox.spec).exec(&read, ExecOptions::default()).await.expect("answers");
        assert_eq!(read.stdout.to_text(), "kept\n");
    }
}
