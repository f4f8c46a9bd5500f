//! What a sandbox of this provider is, for whoever asked for it.

use emergent_provider::{Sandbox, SandboxSpec};

use crate::disk::DiskKind;
use crate::host::Host;

impl Host {
    pub(crate) fn describe(&self, spec: &SandboxSpec, disk: DiskKind) -> Sandbox {
        let mut warnings = self.standing_warnings();
        if disk == DiskKind::Volumes {
            let why = self.trial.known().and_then(|means| means.why_volumes).unwrap_or_default();
            warnings.push(format!(
                "disk usage is watched and not limited by the file system: {why}; beyond the limit tools write \
                 nothing more, but programs can"
            ));
        }
        Sandbox {
            provider_id: self.names.container(spec.id),
            isolation: self.options.runtime.isolation(),
            network: spec.network,
            persistence: disk.persistence(),
            disk_enforcement: disk.enforcement(),
            warnings,
        }
    }
}
