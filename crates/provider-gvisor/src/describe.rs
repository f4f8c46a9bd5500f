//! What a sandbox of this provider is, for whoever asked for it.

use bollard::Docker;
use emergent_provider::{ImageDefaults, Operation, ProviderError, Sandbox, SandboxSpec};

use crate::disk::{DiskKind, kind_of};
use crate::host::Host;
use crate::{image, names};

impl Host {
    /// What a sandbox is that was there already.
    pub(crate) async fn describe_running(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        let looked = async {
            let Some(volume) = self.workspace_volume(docker, spec.id).await? else { return Ok(None) };
            let image = volume.labels.get(names::IMAGE).cloned().unwrap_or_default();
            let settings = match image::present(docker, &image).await? {
                Some(image) => image.settings,
                None => self.roots.unpacked(&image).await.map(|(_, settings)| settings).unwrap_or_default(),
            };
            Ok(Some((kind_of(&volume), settings.defaults)))
        };
        let seen = looked.await.map_err(self.docker_step(operation, spec.id, "look for its volume"))?;
        let (kind, defaults) = seen.ok_or_else(|| self.not_found(spec.id))?;
        Ok(self.describe(spec, kind, defaults))
    }

    pub(crate) fn describe(&self, spec: &SandboxSpec, disk: DiskKind, image: ImageDefaults) -> Sandbox {
        let mut warnings = self.standing_warnings();
        if disk == DiskKind::Volumes {
            let why = self.trial.known().and_then(|means| means.why_volumes);
            let why = why.unwrap_or_else(|| "it was made with volumes of Docker's".to_owned());
            warnings.push(format!(
                "disk usage is watched and not limited by the file system: {why}; beyond the limit tools write \
                 nothing more, but programs can"
            ));
            if !spec.volumes.is_empty() {
                warnings.push(
                    "what is in the volumes of this workspace is neither limited nor watched".to_owned(),
                );
            }
        }
        Sandbox {
            provider_id: self.names.container(spec.id),
            isolation: self.options.runtime.isolation(),
            network: spec.network,
            persistence: disk.persistence(),
            disk_enforcement: disk.enforcement(),
            image: Some(image),
            warnings,
        }
    }
}
