//! Pulling an image, with its progress in the log and for whoever asks.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::StreamExt;

use super::progress::Pulls;
use super::{ImageReference, credentials};
use crate::engine::EngineError;

/// How often the log says how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// How long a registry may say nothing more once it has spoken.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);

/// Pulls an image, as whoever Docker's own configuration says. The error is Docker's reason.
pub(super) async fn pull(
    docker: &Docker,
    reference: &ImageReference,
    first_word: Duration,
    pulls: &Pulls,
) -> Result<(), String> {
    let credentials = credentials::of(reference.registry()).await;
    let options =
        CreateImageOptionsBuilder::new().from_image(reference.name()).tag(reference.version()).build();
    tracing::info!(image = %reference, "pulling image {reference}");
    let pull = pulls.begin(reference.to_string());
    // Dropped, it ends the pull with Docker as well.
    let mut progress = std::pin::pin!(docker.create_image(Some(options), None, credentials));
    let (started, mut reported) = (Instant::now(), Instant::now());
    let mut patience = first_word;
    loop {
        let step = match tokio::time::timeout(patience, progress.next()).await {
            Err(_) => {
                let registry = reference.registry();
                return Err(format!("nothing was heard of {registry} for {} s", patience.as_secs()));
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(one_line(&EngineError::from(error).to_string())),
            Ok(Some(Ok(step))) => step,
        };
        patience = SILENCE_LIMIT;
        pull.note(&step);
        if reported.elapsed() > REPORT_EVERY {
            reported = Instant::now();
            let layer = step.id.unwrap_or_default();
            let (now, all) = step
                .progress_detail
                .map_or((0, 0), |detail| (detail.current.unwrap_or(0), detail.total.unwrap_or(0)));
            tracing::info!(image = %reference, layer, bytes = now, of_bytes = all,
                "pulling image {reference}: {}", step.status.unwrap_or_default());
        }
    }
    tracing::info!(image = %reference, duration_ms = started.elapsed().as_millis(), "pulled image {reference}");
    Ok(())
}

/// What a registry says may have lines and be of any length.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}
