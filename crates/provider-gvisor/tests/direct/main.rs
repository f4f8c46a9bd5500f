//! The provider over real runsc, without any Docker.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod faults;
mod frozen;
mod images;
#[path = "../conformance/lasting_volumes.rs"]
mod lasting_volumes;
#[path = "../conformance/loop_devices.rs"]
mod loop_devices;
#[path = "../conformance/memory.rs"]
mod memory;
mod network;
mod posture;
mod reboot;
mod unpacked;
mod volumes;
#[path = "../../../host-net/tests/host/world.rs"]
#[expect(dead_code, reason = "shared with the tests of host-net")]
mod world;

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{DirectOptions, DirectProvider, find_runsc};
use emergent_test_support::TEST_IMAGE;
use emergent_types::InstallationId;

/// The data folder of a new server that finds the image of tests unpacked: unpacking takes longer than most
/// tests.
fn data_folder() -> tempfile::TempDir {
    let data = tempfile::Builder::new().prefix("emergent-direct-").tempdir().unwrap();
    let own = data.path().join("direct");
    std::fs::DirBuilder::new().mode(0o700).create(&own).unwrap();
    std::os::unix::fs::symlink(unpacked::once(TEST_IMAGE), own.join("images")).unwrap();
    data
}

fn options(data: &Path, installation: InstallationId) -> DirectOptions {
    DirectOptions {
        data_dir: data.to_owned(),
        installation,
        agent: emergent_agent_bundle::bytes().into(),
        runsc: find_runsc().expect("install Debian's runsc, or run `cargo xtask test --tier gvisor`"),
        default_image: TEST_IMAGE.to_owned(),
        egress_allow: Vec::new(),
    }
}

/// Sandboxes under gVisor without Docker.
async fn subject() -> Subject {
    let data = data_folder();
    let provider = DirectProvider::new(options(data.path(), InstallationId::generate()));
    let folders = data.path().join("direct/sandboxes");
    let mut subject = Subject::new(Arc::new(provider), Some("/workspace"), data);
    subject.folders = Some(folders);
    subject
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, streams, snapshots, limits, usage, isolation);
emergent_provider::conformance_tests_together!(crate::subject; exec, files, edit, search, git, output, watch,
    terminal, tunnel, transfer, stdio);
