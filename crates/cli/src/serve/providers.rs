//! The providers of this build. The only place that names them.

use std::path::Path;
use std::sync::Arc;

use emergent_provider::WorkspaceProvider;
use emergent_provider_local::{AgentSource, HelperCommand, LocalProvider, Options};
use emergent_types::InstallationId;

use crate::LOCAL_SANDBOX;

/// Every provider, whether it works here or not: its health says so.
pub(super) fn all(folder: &Path, installation: InstallationId) -> Vec<Arc<dyn WorkspaceProvider>> {
    vec![Arc::new(local(folder, installation))]
}

/// The embedded sandbox.
pub(crate) fn local(folder: &Path, installation: InstallationId) -> LocalProvider {
    LocalProvider::new(Options {
        data_dir: folder.to_owned(),
        installation,
        agent: AgentSource::Bytes(emergent_agent_bundle::bytes().into()),
        helper: HelperCommand::current_exe(LOCAL_SANDBOX),
    })
}
