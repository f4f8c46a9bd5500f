//! The images of an engine, for whoever makes one and is not the provider.

use bollard::Docker;
use bytes::Bytes;
use futures::Stream;

use super::import::{ImportError, import};
use super::{ImageReference, PresentImage};
use crate::engine::{Engine, EngineAddress};

/// The images of an engine that answers.
pub struct EngineImages {
    docker: Docker,
}

/// An image that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedImage {
    /// What it is called, with its tag.
    pub name: String,
    /// The hash of its content.
    pub id: String,
}

impl EngineImages {
    /// Those of the engine at this address; an error that names it where nobody answers.
    pub async fn of(address: EngineAddress) -> Result<Self, ImportError> {
        let docker = Engine::new(address).docker().await;
        docker.map(|docker| Self { docker }).map_err(|error| ImportError::Unreachable(error.to_string()))
    }

    /// Whether a new image can be called this.
    pub fn check_name(name: &str) -> Result<(), ImportError> {
        new_name(name).map(drop)
    }

    /// Makes an image of a tar stream, in the place of one that had the name before. `changes` are lines
    /// of a Dockerfile that say how it is run. Dropped before its end, nothing is left.
    pub async fn import<E: std::fmt::Display + 'static>(
        &self,
        name: &str,
        changes: &[&str],
        content: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Result<ImportedImage, ImportError> {
        let reference = new_name(name)?;
        let PresentImage { id, .. } = import(&self.docker, &reference, changes, content).await?;
        Ok(ImportedImage { name: format!("{}:{}", reference.name(), reference.version()), id })
    }
}

/// A digest is what an image turns out to have; nobody can ask for it.
fn new_name(name: &str) -> Result<ImageReference, ImportError> {
    let reference: Option<ImageReference> = name.parse().ok();
    reference
        .filter(|_| !name.contains('@'))
        .ok_or_else(|| ImportError::NotAName(name.chars().take(80).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_new_images() {
        let digest = format!("a@sha256:{}", "0f".repeat(32));
        for (name, expect) in [("a/b:1", true), ("a", true), ("a b", false), (digest.as_str(), false)] {
            assert_eq!(EngineImages::check_name(name).is_ok(), expect, "{name}");
        }
    }
}
