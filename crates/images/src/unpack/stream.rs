//! Unpacking what arrives over a network, chunk by chunk.

use std::path::PathBuf;

use bytes::Bytes;
use futures::{Stream, StreamExt};

use super::{Limits, UnpackError, Unpacked, unpack};
use crate::chunks;

/// Like [`unpack`], for a stream such as the body of an answer. The work is done on a thread that
/// may block.
///
/// Dropped in the middle, it stops at the next chunk and removes what it has made; so the folder
/// may be busy for a moment longer.
pub async fn unpack_stream<E>(
    chunks: impl Stream<Item = Result<Bytes, E>>,
    folder: PathBuf,
    limits: Limits,
) -> Result<Unpacked, UnpackError>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let after = limits.time;
    let (feed, reader) = chunks::feed();
    let mut worker = tokio::task::spawn_blocking(move || unpack(reader, &folder, &limits));
    let feeding = async move {
        let mut chunks = std::pin::pin!(chunks);
        while let Some(chunk) = chunks.next().await {
            if feed.chunk(chunk.map_err(std::io::Error::other)).await.is_err() {
                return;
            }
        }
        feed.end().await;
    };
    let answer = tokio::select! {
        biased;
        answer = &mut worker => answer,
        () = feeding => worker.await,
        // A sender that falls silent is not noticed by a reader that waits.
        () = tokio::time::sleep(after) => {
            // The feed is gone by now, so this ends at once, with everything removed, unless the
            // last byte had come already.
            return match worker.await {
                Ok(Ok(unpacked)) => Ok(unpacked),
                _ => Err(UnpackError::TimedOut { after }),
            };
        }
    };
    match answer {
        Ok(answer) => answer,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
