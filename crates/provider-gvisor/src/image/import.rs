//! Giving Docker a root as an image: a tar archive, streamed through its interface, so that it works
//! with engines on other machines as well.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};

use super::{ImageReference, PresentImage, present};
use crate::engine::EngineError;

/// How long Docker may take with one: it reads all of it before it answers.
const IMPORT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// An image was not imported. Docker keeps nothing of one that it did not get whole.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is no Docker.
    #[error("{0}")]
    Unreachable(String),
    /// Names no image that could be made.
    #[error("{0:?} cannot be the name of a new image; expected [registry/]name[:tag]")]
    NotAName(String),
    /// What was to become an image could not be read to its end.
    #[error("image {name}: its content ended early: {reason}")]
    Content {
        /// Which image.
        name: String,
        /// What was said of the content.
        reason: String,
    },
    /// Docker did not take it.
    #[error("image {name} was not imported: {reason}")]
    Refused {
        /// Which image.
        name: String,
        /// What Docker said.
        reason: String,
    },
}

/// Makes an image of a tar stream. `changes` are lines of a Dockerfile.
pub(super) async fn import<E: std::fmt::Display + 'static>(
    docker: &Docker,
    reference: &ImageReference,
    changes: &[&str],
    content: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Result<PresentImage, ImportError> {
    let name = reference.to_string();
    // Docker only sees that the archive has no end; the reason is known on this side.
    let ended_early: Arc<Mutex<Option<String>>> = Arc::default();
    let noted = Arc::clone(&ended_early);
    let content = content.map(move |chunk| {
        chunk.map_err(|error| {
            let reason = error.to_string();
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.clone());
            std::io::Error::other(reason)
        })
    });
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(reference.name())
        .tag(reference.version())
        .changes(changes.iter().map(|change| (*change).to_owned()).collect())
        .build();
    let patient = docker.clone().with_timeout(IMPORT_LIMIT);
    let imported = patient
        .create_image(Some(options), Some(bollard::body_try_stream(content)), None)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
        .map_err(EngineError::from);
    if let Some(reason) = ended_early.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(ImportError::Content { name, reason });
    }
    let refused = |reason: String| ImportError::Refused { name: name.clone(), reason };
    imported.map_err(|error| refused(error.to_string()))?;
    let image = present(docker, &name).await.map_err(|error| refused(error.to_string()))?;
    image.ok_or_else(|| refused("Docker took it and does not have it".to_owned()))
}
