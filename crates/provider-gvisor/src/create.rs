//! Making a sandbox.
//!
//! ```text
//!  image ─► agent's volume ─► disk ─► container ─► agent speaks
//! ```
//!
//! What fails is undone at once; what a killed server leaves carries labels, so it is listed and
//! can be destroyed.

use std::time::Instant;

use bollard::Docker;
use emergent_provider::{Operation, ProviderError, Sandbox, SandboxSpec};
use emergent_types::{ByteSize, ProviderKind, ResourceLimits};

use crate::containers::{self, Condition};
use crate::disk::{DiskKind, ReadyDisk};
use crate::engine::EngineError;
use crate::host::Host;
use crate::image::{ChosenImage, ImageError, PresentImage};
use crate::means::Means;

/// As on the embedded provider.
const MIN_MEMORY: ByteSize = ByteSize::from_mib(32);
const MIN_DISK: ByteSize = ByteSize::from_mib(16);
/// The largest that the file system of a disk can be.
const MAX_DISK: ByteSize = ByteSize::from_gib(16 << 10);

impl Host {
    /// See [`WorkspaceProvider::create`](emergent_provider::WorkspaceProvider::create).
    pub(crate) async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let clock = Instant::now();
        let docker = self.docker().await?;
        self.check_runtime(&docker).await?;
        let failed =
            |step| move |error: EngineError| self.docker_step(Operation::Create, spec.id, step)(error);
        let name = self.names.container(spec.id);
        if let Some(seen) =
            containers::look(&docker, &name).await.map_err(failed("look for its container"))?
        {
            if seen.condition == Condition::Running {
                return self.describe_running(&docker, Operation::Create, spec).await;
            }
            self.remove_everything(&docker, Operation::Create, spec.id).await?;
        }
        let means = self.means(&docker).await?;
        self.check_enforceable(spec, &means)?;
        let ChosenImage { image, warning } = self.image(&docker, spec).await?;
        self.agent.ensure(&docker, &image.id).await.map_err(failed("volume of the agent"))?;
        let made = self.make(&docker, spec, &image, means.disk).await;
        match made {
            Ok(mut sandbox) => {
                self.startup.add(clock.elapsed());
                sandbox.warnings.extend(warning);
                Ok(sandbox)
            }
            Err(error) => {
                if let Err(left) = self.remove_everything(&docker, Operation::Create, spec.id).await {
                    // It goes when the workspace is destroyed. Why there is none is what anybody wants to know.
                    tracing::warn!(workspace = %spec.id, error = %left, "what a failed create left stays for now: {left}");
                }
                Err(error)
            }
        }
    }

    /// Makes a sandbox; leaves what it has made where that fails.
    pub(crate) async fn make(
        &self,
        docker: &Docker,
        spec: &SandboxSpec,
        image: &PresentImage,
        disk: DiskKind,
    ) -> Result<Sandbox, ProviderError> {
        let disk = self.make_disk(docker, spec, image, disk).await?;
        self.start_around(docker, Operation::Create, spec, disk).await
    }

    /// Starts a sandbox on a disk that is there.
    pub(crate) async fn start_around(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &SandboxSpec,
        disk: ReadyDisk,
    ) -> Result<Sandbox, ProviderError> {
        let (kind, defaults) = (disk.kind, disk.image.settings.defaults.clone());
        // On the heap: much may have to be looked at for it.
        let plan = Box::pin(self.plan(docker, operation, spec, disk)).await?;
        self.launch(docker, operation, plan).await?;
        Ok(self.describe(spec, kind, defaults))
    }

    /// Refuses what a request names and cannot be kept to.
    fn check_enforceable(&self, spec: &SandboxSpec, means: &Means) -> Result<(), ProviderError> {
        check_sizes(self.kind(), spec.limits)?;
        // What is only watched can be overrun.
        match &means.why_volumes {
            Some(why) if spec.named.disk => Err(self.only_watched(why)),
            _ => Ok(()),
        }
    }

    pub(crate) fn only_watched(&self, why: &str) -> ProviderError {
        let reason = format!("its use can only be watched: {why}");
        ProviderError::NotEnforceable { provider: self.kind(), what: "disk", reason }
    }

    /// The image that a request wants.
    async fn image(&self, docker: &Docker, spec: &SandboxSpec) -> Result<ChosenImage, ProviderError> {
        let chosen = match &spec.base_image {
            Some(name) => self.images.named(docker, name).await,
            None => self.images.or_minimal(docker, &self.options.default_image).await,
        };
        chosen.map_err(|error| match error {
            ImageError::NotAnImage(reason) => ProviderError::NotEnforceable {
                provider: self.kind(),
                what: "base_image",
                reason: reason.to_string(),
            },
            ImageError::NotFound { reference, reason } => {
                ProviderError::ImageNotFound { provider: self.kind(), reference, reason }
            }
            ImageError::NotEvenMinimal { .. } => self.step(Operation::Create, spec.id, "image", error),
            ImageError::Engine(error) => self.docker_step(Operation::Create, spec.id, "image")(error),
        })
    }
}

/// Refuses sizes that no sandbox can have.
pub(crate) fn check_sizes(provider: ProviderKind, limits: ResourceLimits) -> Result<(), ProviderError> {
    let refuse = |what, reason: String| Err(ProviderError::NotEnforceable { provider, what, reason });
    if limits.memory < MIN_MEMORY {
        return refuse("memory", format!("{} is below the least of {MIN_MEMORY}", limits.memory));
    }
    if limits.disk < MIN_DISK {
        return refuse("disk", format!("{} is below the least of {MIN_DISK}", limits.disk));
    }
    if limits.disk > MAX_DISK {
        return refuse("disk", format!("{} is above the greatest of {MAX_DISK}", limits.disk));
    }
    Ok(())
}
