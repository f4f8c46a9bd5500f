//! Making a sandbox.
//!
//! ```text
//!  image ─► folder ─┬► disk over the image ─────────┬► volumes ─► bundle ─► runsc run ─► agent speaks
//!                   └► namespace, link, rules ──────┘
//! ```
//!
//! What fails is undone at once; what a killed server leaves has a folder, so it is listed and can be
//! destroyed.

use std::time::Instant;

use emergent_provider::{Operation, ProviderError, Sandbox, SandboxSpec};
use emergent_types::NetworkMode;

use super::host::Host;
use super::images::{ChosenRoot, RootError};
use super::launch::Launched;
use super::record::Record;
use super::runsc::Status;
use crate::create::check_sizes;

impl Host {
    /// See [`WorkspaceProvider::create`](emergent_provider::WorkspaceProvider::create).
    pub(super) async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let clock = Instant::now();
        self.settle().await;
        if self.layout.sandbox(spec.id).exists() {
            let is_whole = self.record(spec.id).is_some();
            if is_whole && self.status(Operation::Create, spec.id).await? == Some(Status::Running) {
                return Ok(self.describe(spec));
            }
            self.remove_everything(Operation::Create, spec.id).await?;
        }
        self.check_enforceable(spec)?;
        self.try_out().await?;
        let ChosenRoot { id: image, warning } = self.image(spec).await?;
        match self.make(spec, &image).await {
            Ok(_) => {
                self.startup.add(clock.elapsed());
                let mut sandbox = self.describe(spec);
                sandbox.warnings.extend(warning);
                Ok(sandbox)
            }
            Err(error) => {
                self.remove_everything(Operation::Create, spec.id).await?;
                Err(error)
            }
        }
    }

    /// Refuses what cannot be kept to.
    pub(super) fn check_enforceable(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        check_sizes(self.kind(), spec.limits)
    }

    /// Makes a sandbox; leaves what it has made where that fails.
    pub(super) async fn make(&self, spec: &SandboxSpec, image: &str) -> Result<Launched, ProviderError> {
        self.make_folder(Operation::Create, spec.id).await?;
        let (disk, connection) = tokio::join!(
            self.make_disk(spec, self.images.root(image)),
            self.connection(Operation::Create, spec.id, spec.network),
        );
        disk?;
        let connection = connection?;
        let record = Record { image: image.to_owned(), network: spec.network };
        self.launch(Operation::Create, spec, record, connection).await
    }

    /// The image that a request wants.
    async fn image(&self, spec: &SandboxSpec) -> Result<ChosenRoot, ProviderError> {
        let chosen = match &spec.base_image {
            Some(name) => self.images.named(name).await,
            None => self.images.or_minimal(&self.options.default_image).await,
        };
        chosen.map_err(|error| match error {
            RootError::NotAnImage(reason) => ProviderError::NotEnforceable {
                provider: self.kind(),
                what: "base_image",
                reason: reason.to_string(),
            },
            RootError::NotFound { reference } => ProviderError::ImageNotFound {
                provider: self.kind(),
                reference,
                reason: RootError::reason().to_owned(),
            },
            other => self.step(Operation::Create, spec.id, "image", other),
        })
    }

    /// The flag with which a sandbox has the network that it is to have.
    pub(super) fn network_flag(network: NetworkMode) -> &'static str {
        match network {
            NetworkMode::Isolated => "--network=none",
            NetworkMode::Internet => "--network=host",
        }
    }
}
