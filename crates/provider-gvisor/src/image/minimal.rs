//! The image in the place of the default one, made of the system that the server runs on.

use std::fmt::Write as _;
use std::path::Path;

use bollard::Docker;
use emergent_images::minimal::{MinimalError, Options, Plan};
use sha2::{Digest, Sha256};

use super::import::{ImportError, import};
use super::{ImageReference, PresentImage};
use crate::engine::EngineError;

/// Its name without the tag. Not the default's: whoever brings that one has it used at once.
pub(super) const REPOSITORY: &str = "emergent/workspace-minimal";

/// Raised when images are made in another way, so that those of before are not taken for these.
const RECIPE: &str = "1";

/// Where a host says which system it has.
const RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// Why no image could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error(transparent)]
    System(#[from] MinimalError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("its name is not one: {0}")]
    Name(#[from] super::NotAnImage),
    #[error("the task that looks at the system has died: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// It failed a moment ago and is not tried again yet.
    #[error("{reason}")]
    Before { reason: String },
}

/// What the image of this host is called: made once for each release of its system, and again when
/// what belongs into it changes.
pub(crate) async fn reference() -> Result<ImageReference, MakeError> {
    let mut hash = Sha256::new();
    hash.update(RECIPE);
    hash.update(std::env::consts::ARCH);
    hash.update(release().await);
    for package in Options::default().packages {
        hash.update(package);
        hash.update(b"\n");
    }
    let mut tag = String::new();
    for byte in hash.finalize().iter().take(6) {
        // Into a string: cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    Ok(format!("{REPOSITORY}:{tag}").parse()?)
}

/// Makes it. Takes some seconds, and as many bytes of Docker's disk as the system has.
pub(super) async fn make(docker: &Docker, reference: &ImageReference) -> Result<PresentImage, MakeError> {
    tracing::info!(image = %reference, "making image {reference} of this host's system");
    let plan = plan().await?;
    let changes = emergent_images::workspace::IMPORT_CHANGES;
    let image = import(docker, reference, &changes, plan.into_stream()).await?;
    tracing::info!(image = %reference, id = image.id, "made image {reference}");
    Ok(image)
}

/// What it will be made of.
pub(crate) async fn plan() -> Result<Plan, MakeError> {
    Ok(tokio::task::spawn_blocking(|| Plan::of_host(&Options::default())).await??)
}

/// What the user of a workspace with this image should know.
pub(crate) fn warning(wanted: &str, reason: &str) -> String {
    format!(
        "image {wanted} is not present and could not be pulled ({reason}); in its place is a minimal image made of \
         the system of the host that the server runs on, with what is installed there; `emergent image build` \
         makes the whole one, which new workspaces then have"
    )
}

async fn release() -> Vec<u8> {
    for file in RELEASE {
        if let Ok(text) = tokio::fs::read(Path::new(file)).await {
            return text;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_name_stays_the_same() {
        let (first, second) = (reference().await.unwrap(), reference().await.unwrap());
        assert_eq!(first, second);
        assert_eq!(first.name(), REPOSITORY);
        assert_eq!(first.version().len(), 12);
    }
}
