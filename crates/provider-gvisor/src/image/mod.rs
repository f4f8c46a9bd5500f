//! Which image a sandbox starts from: one that is present, one that is pulled, or, for the default
//! one where there is no registry, one made from the host's own system folders.
//!
//! ```text
//!  named by the request:  present ─► pulled ─► image_not_found
//!  the default:           present ─► pulled ─► minimal, with a warning ─► an error that says all
//! ```

mod credentials;
mod engine_images;
mod failures;
mod import;
mod minimal;
mod progress;
mod pull;
mod reference;
mod root;
mod settings;
mod start;
mod tidy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::models::ImageInspect;

use crate::engine::EngineError;
use failures::Failures;
use progress::Pulls;

pub use engine_images::{EngineImages, ImportedImage};
pub use import::ImportError;
pub(crate) use minimal::{
    MakeError, plan as minimal_plan, reference as minimal_reference, warning as minimal_warning,
};
pub(crate) use reference::{ImageReference, NotAnImage};
pub(crate) use root::unpack_root;
pub(crate) use settings::ImageSettings;
pub(crate) use start::StartImage;
pub(crate) use tidy::Tidying;

/// An image that Docker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PresentImage {
    /// The hash of its content: the same name may mean another one tomorrow.
    pub(crate) id: String,
    pub(crate) settings: ImageSettings,
}

/// The image for a workspace, and what its user should know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChosenImage {
    pub(crate) image: PresentImage,
    pub(crate) warning: Option<String>,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error(transparent)]
    NotAnImage(#[from] NotAnImage),
    /// Docker does not have it and could not get it.
    #[error("image {reference} is not present and could not be pulled: {reason}")]
    NotFound { reference: String, reason: String },
    /// The same, and no other could be made in its place.
    #[error(
        "image {reference} is not present and could not be pulled: {reason}; and no minimal one could be made of \
         the system that the server runs on: {minimal}; `emergent image build` makes one of packages"
    )]
    NotEvenMinimal { reference: String, reason: String, minimal: MakeError },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// How long a registry is waited for, and how long a failure is taken for granted.
struct Patience {
    /// Until it says anything at all.
    first_word: Duration,
    /// Whoever asks within this time is told the same again.
    remembered: Duration,
}

/// For an image that a request names. Remembered as long as it takes those to hear of it who wait
/// for the same one.
const NAMED: Patience = Patience { first_word: Duration::from_secs(30), remembered: Duration::from_secs(10) };

/// For the default image, in whose place there is another one: most hosts that lack it have no
/// registry, and no create should wait for one again and again.
const DEFAULT: Patience =
    Patience { first_word: Duration::from_secs(10), remembered: Duration::from_secs(300) };

/// How long it is taken for granted that no minimal image can be made.
const NO_MINIMAL_REMEMBERED: Duration = Duration::from_secs(60);

/// Images by name. One pull at a time for each: whoever else wants it waits for that one.
#[derive(Default)]
pub(crate) struct Images {
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    failures: Failures,
    pulls: Pulls,
}

impl Images {
    /// How far the pull of an image is, where one is under way.
    pub(crate) fn progress(&self, name: &str) -> Option<String> {
        let reference: ImageReference = name.parse().ok()?;
        self.pulls.describe(&reference.to_string())
    }

    /// The image that a request names. Never pulled when it is present.
    pub(crate) async fn named(&self, docker: &Docker, name: &str) -> Result<ChosenImage, ImageError> {
        let image = self.get(docker, &name.parse()?, &NAMED).await?;
        Ok(ChosenImage { image, warning: None })
    }

    /// The image of a request that names none: that one, or a minimal one in its place. The name of the
    /// default stays free, so that it is used as soon as it is there.
    pub(crate) async fn or_minimal(&self, docker: &Docker, name: &str) -> Result<ChosenImage, ImageError> {
        let (reference, reason) = match self.get(docker, &name.parse()?, &DEFAULT).await {
            Err(ImageError::NotFound { reference, reason }) => (reference, reason),
            other => return other.map(|image| ChosenImage { image, warning: None }),
        };
        match self.minimal(docker).await {
            Ok(image) => {
                let warning = minimal::warning(&reference, &reason);
                Ok(ChosenImage { image, warning: Some(warning) })
            }
            Err(minimal) => Err(ImageError::NotEvenMinimal { reference, reason, minimal }),
        }
    }

    async fn get(
        &self,
        docker: &Docker,
        reference: &ImageReference,
        patience: &Patience,
    ) -> Result<PresentImage, ImageError> {
        let name = reference.to_string();
        if let Some(image) = present(docker, &name).await? {
            return Ok(image);
        }
        let got = self.in_turn(&name, async || {
            // Whoever had the turn before may have brought it, or heard that it cannot be had.
            if let Some(image) = present(docker, &name).await? {
                return Ok(image);
            }
            let not_found = |reason| ImageError::NotFound { reference: name.clone(), reason };
            if let Some(reason) = self.failures.recent(&name, patience.remembered) {
                return Err(not_found(reason));
            }
            if let Err(reason) = pull::pull(docker, reference, patience.first_word, &self.pulls).await {
                self.failures.remember(&name, &reason);
                return Err(not_found(reason));
            }
            let image = present(docker, &name).await?;
            image.ok_or_else(|| not_found("Docker pulled it and does not have it".to_owned()))
        });
        got.await
    }

    /// The image made of the host's own system; made where it is not there.
    async fn minimal(&self, docker: &Docker) -> Result<PresentImage, MakeError> {
        let reference = minimal::reference().await?;
        let name = reference.to_string();
        if let Some(image) = present(docker, &name).await? {
            return Ok(image);
        }
        let made = self.in_turn(&name, async || {
            if let Some(image) = present(docker, &name).await? {
                return Ok(image);
            }
            if let Some(reason) = self.failures.recent(&name, NO_MINIMAL_REMEMBERED) {
                return Err(MakeError::Before { reason });
            }
            let made = minimal::make(docker, &reference).await;
            if let Err(error) = &made {
                self.failures.remember(&name, &error.to_string());
            }
            made
        });
        made.await
    }

    /// One after another, for each name.
    async fn in_turn<T>(&self, name: &str, work: impl AsyncFnOnce() -> T) -> T {
        let turn = Arc::clone(self.turns().entry(name.to_owned()).or_default());
        let done = {
            let _turn = turn.lock().await;
            work().await
        };
        drop(turn);
        self.turns().retain(|_, turn| Arc::strong_count(turn) > 1);
        done
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<tokio::sync::Mutex<()>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An image by its name or its content's hash, if Docker has it.
pub(crate) async fn present(docker: &Docker, name: &str) -> Result<Option<PresentImage>, EngineError> {
    match docker.inspect_image(name).await.map_err(EngineError::from) {
        Ok(ImageInspect { id, config, .. }) => {
            Ok(id.map(|id| PresentImage { id, settings: ImageSettings::of(config) }))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
