//! The provider over real runsc under a real Docker.

mod full_host;
mod lasting_volumes;
mod loop_devices;
mod memory;
mod posture;
mod reboot;
mod volumes;

use std::path::Path;
use std::sync::Arc;

use emergent_provider::WorkspaceProvider;
use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{EngineAddress, GvisorProvider, Options, Runtime};
use emergent_test_support::{TEST_IMAGE, TestDocker};
use emergent_types::InstallationId;

/// Sandboxes under gVisor.
async fn subject() -> Subject {
    subject_with(TestDocker::get(), Runtime::Runsc)
}

/// Sandboxes of that Docker's under that runtime.
fn subject_with(docker: TestDocker, runtime: Runtime) -> Subject {
    let address = EngineAddress::new(docker.address());
    subject_at(address, docker, runtime)
}

/// The same, of a Docker that is reached there.
fn subject_at(engine: EngineAddress, docker: TestDocker, runtime: Runtime) -> Subject {
    let data = docker.data_folder();
    let provider = provider(engine, data.path(), runtime);
    let folders = data.path().join("containers").join(runtime.kind().as_str());
    let mut subject = Subject::new(provider, Some("/workspace"), (data, docker));
    subject.folders = Some(folders);
    subject
}

fn provider(engine: EngineAddress, data: &Path, runtime: Runtime) -> Arc<dyn WorkspaceProvider> {
    provider_of(InstallationId::generate(), engine, data, runtime)
}

fn provider_of(
    installation: InstallationId,
    engine: EngineAddress,
    data: &Path,
    runtime: Runtime,
) -> Arc<dyn WorkspaceProvider> {
    Arc::new(GvisorProvider::new(Options {
        data_dir: data.to_owned(),
        installation,
        agent: emergent_agent_bundle::bytes().into(),
        engine,
        runtime,
        default_image: TEST_IMAGE.to_owned(),
        egress_allow: Vec::new(),
    }))
}

/// Sandboxes of Docker's own runtime: the same provider under another name.
mod dockers_own {
    pub(crate) async fn subject() -> super::Subject {
        super::subject_with(super::TestDocker::get(), super::Runtime::Default)
    }

    emergent_provider::conformance_tests!(crate::dockers_own::subject; lifecycle, usage);
    // Processor time is what can be adjusted there, and not under gVisor.
    emergent_provider::conformance_checks!(limits, crate::dockers_own::subject; limits_can_be_adjusted);
}

/// A Docker that may be on another host, for all one can see: its volumes are what workspaces are kept in, and
/// are only watched. The parts that have to do with that, and what a limit is without a disk of its own.
mod on_volumes {
    pub(crate) async fn subject() -> super::Subject {
        let docker = super::TestDocker::get();
        let address = super::EngineAddress::new(docker.address_by_tcp());
        let mut subject = super::subject_at(address, docker, super::Runtime::Runsc);
        // There are no disks of the asked size.
        subject.folders = None;
        subject
    }

    emergent_provider::conformance_tests!(crate::on_volumes::subject; lifecycle, snapshots, usage);
    emergent_provider::conformance_tests_together!(crate::on_volumes::subject; files, transfer);
    emergent_provider::conformance_checks!(limits, crate::on_volumes::subject;
        memory_beyond_the_limit_kills_the_process_only,
        memory_on_tmpfs_counts);
    emergent_provider::conformance_checks!(exec, crate::on_volumes::subject;
        an_account_of_the_sandbox,
        background_processes_outlive_the_connection);
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, streams, snapshots, limits, usage, isolation);
emergent_provider::conformance_tests_together!(crate::subject; exec, files, edit, search, git, output, watch,
    terminal, tunnel, transfer, stdio);
