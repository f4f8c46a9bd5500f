//! Which image a sandbox starts from: one that is present, one that is pulled, or, for the default
//! one where there is no registry, one made from the host's own system folders.

mod credentials;
mod pull;
mod reference;
mod root;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bollard::Docker;
use bollard::models::ImageInspect;

use crate::engine::EngineError;

pub(crate) use reference::{ImageReference, NotAnImage};
pub(crate) use root::unpack_root;

/// An image that Docker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PresentImage {
    /// The hash of its content: the same name may mean another one tomorrow.
    pub(crate) id: String,
    /// What its author wants programs to find in their environment.
    pub(crate) environment: Vec<String>,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error(transparent)]
    NotAnImage(#[from] NotAnImage),
    /// Docker does not have it and could not get it.
    #[error("image_not_found: {reference} is not present and could not be pulled: {reason}")]
    NotFound { reference: String, reason: String },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Images by name. One pull at a time for each: whoever else wants it waits for that one.
#[derive(Default)]
pub(crate) struct Images {
    pulls: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Images {
    /// The image of that name. Never pulled when it is present.
    pub(crate) async fn get(&self, docker: &Docker, name: &str) -> Result<PresentImage, ImageError> {
        let reference: ImageReference = name.parse()?;
        if let Some(image) = present(docker, &reference.to_string()).await? {
            return Ok(image);
        }
        let turn = Arc::clone(
            self.pulls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(reference.to_string())
                .or_default(),
        );
        let pulled = {
            let _turn = turn.lock().await;
            // Whoever had the turn before may have brought it.
            match present(docker, &reference.to_string()).await? {
                Some(image) => Ok(Some(image)),
                None => match pull::pull(docker, &reference).await {
                    Ok(()) => present(docker, &reference.to_string()).await.map_err(ImageError::from),
                    Err(error) => Err(error),
                },
            }
        };
        drop(turn);
        self.pulls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, turn| Arc::strong_count(turn) > 1);
        pulled?.ok_or_else(|| ImageError::NotFound {
            reference: reference.to_string(),
            reason: "Docker pulled it and does not have it".to_owned(),
        })
    }
}

/// An image by its name or its content's hash, if Docker has it.
pub(crate) async fn present(docker: &Docker, name: &str) -> Result<Option<PresentImage>, EngineError> {
    match docker.inspect_image(name).await.map_err(EngineError::from) {
        Ok(ImageInspect { id: Some(id), config, .. }) => {
            let environment = config.and_then(|config| config.env).unwrap_or_default();
            Ok(Some(PresentImage { id, environment }))
        }
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
