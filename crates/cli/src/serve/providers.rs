//! The providers of this build. The only place that names them.

use std::path::Path;
use std::sync::Arc;

use emergent_provider::WorkspaceProvider;
use emergent_provider_gvisor::{DEFAULT_IMAGE, DirectOptions, DirectProvider, GvisorProvider, Runtime};
use emergent_provider_local::{AgentSource, HelperCommand, LocalProvider, Options};
use emergent_types::{InstallationId, ProviderKind};

use crate::LOCAL_SANDBOX;
use crate::settings::Settings;
use crate::settings::environment::Environment;
use crate::settings::gvisor::{self, Gvisor};

/// Every provider that is to be used, whether it works here or not: its health says so.
pub(super) fn all(
    folder: &Path,
    installation: InstallationId,
    settings: &Settings,
    environment: &Environment,
) -> Vec<Arc<dyn WorkspaceProvider>> {
    let containers = |runtime| -> Arc<dyn WorkspaceProvider> {
        Arc::new(GvisorProvider::new(emergent_provider_gvisor::Options {
            data_dir: folder.to_owned(),
            installation,
            agent: emergent_agent_bundle::bytes().into(),
            engine: gvisor::engine(environment),
            runtime,
            default_image: DEFAULT_IMAGE.to_owned(),
            egress_allow: settings.egress_allow.clone(),
        }))
    };
    let make = |kind: &ProviderKind| -> Option<Arc<dyn WorkspaceProvider>> {
        match kind {
            ProviderKind::Gvisor => Some(match &settings.gvisor {
                Gvisor::Docker => containers(Runtime::Runsc),
                Gvisor::Direct { runsc } => {
                    Arc::new(DirectProvider::new(direct(folder, installation, runsc, settings)))
                }
            }),
            ProviderKind::Docker => Some(containers(Runtime::Default)),
            ProviderKind::Local => {
                let local = local(folder, installation);
                Some(Arc::new(local.with_egress_allow(settings.egress_allow.clone())))
            }
            // The settings refuse them.
            ProviderKind::E2b | ProviderKind::Firecracker => None,
        }
    };
    settings.providers.used.iter().filter_map(make).collect()
}

/// gVisor without Docker.
fn direct(folder: &Path, installation: InstallationId, runsc: &Path, settings: &Settings) -> DirectOptions {
    DirectOptions {
        data_dir: folder.to_owned(),
        installation,
        agent: emergent_agent_bundle::bytes().into(),
        runsc: runsc.to_owned(),
        default_image: DEFAULT_IMAGE.to_owned(),
        egress_allow: settings.egress_allow.clone(),
    }
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
