//! What a restart of the host takes away is put in place again before a workspace starts: its mounts, and its loop
//! device, whose number may be another's by then.

use std::path::{Path, PathBuf};

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::{ObservedState, SandboxSpec};

use crate::faults::{Server, gofer, kill, with_background};
use crate::loop_devices::{device_of, occupy, unmount_all};

fn attached(folder: &Path) -> PathBuf {
    device_of(folder).expect("its disk is attached")
}

/// The next server finds the workspace, and resumes it with its files.
async fn comes_back(server: &Server, spec: &SandboxSpec, before: PathBuf) {
    let (id, folder) = (spec.id, server.folder(spec.id));
    assert_eq!(device_of(&folder), None);
    let _others = occupy(std::slice::from_ref(&before)).await;
    assert_eq!(server.state(id).await, Some(ObservedState::Stopped));
    server.provider().resume(spec).await.unwrap();
    assert_eq!(server.state(id).await, Some(ObservedState::Running));
    assert_ne!(attached(&folder), before, "that one is in use");
    let client = server.subject.client(spec);
    let read = client.exec(&CommandSpec::shell("cat file"), ExecOptions::default()).await.unwrap();
    assert_eq!(read.stdout.to_text(), "kept\n");
    server.provider().destroy(id).await.unwrap();
    server.has_left_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_was_stopped_gets_another_loop_device() {
    let first = Server::new();
    let sandbox = with_background(&first).await;
    let before = attached(&first.folder(sandbox.id()));
    first.provider().stop(sandbox.id()).await.unwrap();
    let (second, spec) = (first.again(), sandbox.spec.clone());
    drop((first, sandbox));
    comes_back(&second, &spec, before).await;
}

/// Nobody has stopped it: runsc has it written down as running, under a process number of before.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_ran_can_be_resumed() {
    let first = Server::new();
    let sandbox = with_background(&first).await;
    let id = sandbox.id();
    let before = attached(&first.folder(id));
    let processes = [first.pid(id), gofer(&first, id)];
    let (second, spec) = (first.again(), sandbox.spec.clone());
    drop((first, sandbox));
    kill(&processes);
    unmount_all(&second.folder(id), &["agent", "root", "disk"]).await;
    comes_back(&second, &spec, before).await;
}
