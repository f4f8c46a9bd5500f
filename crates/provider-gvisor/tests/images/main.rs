//! Where a workspace's image comes from, and what becomes of it: real Docker, real runsc, a registry of
//! the test's own.

mod environment;
mod leftovers;
mod lost;
mod minimal;
mod registry;
mod small_image;

use std::path::Path;
use std::sync::Arc;

use emergent_provider::WorkspaceProvider;
use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{DEFAULT_IMAGE, EngineAddress, GvisorProvider, Options, Runtime};
use emergent_test_support::TestDocker;
use emergent_types::InstallationId;

/// Sandboxes under gVisor, with the default image of a server.
fn provider(docker: &TestDocker, data: &Path, installation: InstallationId) -> Arc<dyn WorkspaceProvider> {
    provider_with(docker, data, installation, Runtime::Runsc)
}

fn provider_with(
    docker: &TestDocker,
    data: &Path,
    installation: InstallationId,
    runtime: Runtime,
) -> Arc<dyn WorkspaceProvider> {
    Arc::new(GvisorProvider::new(Options {
        data_dir: data.to_owned(),
        installation,
        agent: emergent_agent_bundle::bytes().into(),
        engine: EngineAddress::new(docker.address()),
        runtime,
        default_image: DEFAULT_IMAGE.to_owned(),
        egress_allow: Vec::new(),
    }))
}

/// The same as a subject of checks, which can use the Docker as well.
fn subject(docker: &Arc<TestDocker>) -> Subject {
    let data = docker.folder();
    let provider = provider(docker, data.path(), InstallationId::generate());
    Subject::new(provider, None, (data, Arc::clone(docker)))
}
