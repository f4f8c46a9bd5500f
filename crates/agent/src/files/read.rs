//! The ReadFile call: a file's bytes.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use emergent_protocol::{CHUNK_BYTES, v1};
use rustix::fs::{SeekFrom, seek};
use tokio::sync::mpsc;
use tonic::Status;

use crate::agent::Shared;
use crate::error::CallError;

use super::{blocking, near_names, open_regular, path, read_full};

/// The pieces of a file.
pub(crate) type Chunks = mpsc::Receiver<Result<v1::FileChunk, Status>>;

/// Opens a file and sends its bytes as they are asked for.
pub(crate) async fn read_file(
    shared: &Arc<Shared>,
    request: v1::ReadFileRequest,
) -> Result<Chunks, CallError> {
    let path = path::resolve(&shared.config.workspace, &request.path)?;
    let offset = request.offset;
    let reading = blocking(move || {
        let (file, _) = open_regular(&path).map_err(|error| match error {
            CallError::NotFound { path, .. } => near_names::not_found(&path),
            other => other,
        })?;
        if offset != 0 {
            seek(&file, SeekFrom::Start(offset)).map_err(CallError::file(&path))?;
        }
        Ok(Reading { file, path })
    })
    .await?;
    let length = if request.length == 0 { u64::MAX } else { request.length };
    let (sender, chunks) = mpsc::channel(1);
    tokio::spawn(send(reading, length, sender));
    Ok(chunks)
}

struct Reading {
    file: OwnedFd,
    path: PathBuf,
}

async fn send(mut reading: Reading, mut rest: u64, chunks: mpsc::Sender<Result<v1::FileChunk, Status>>) {
    while rest > 0 {
        let wanted = usize::try_from(rest).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        // One piece at a time: between two no thread waits for the reader.
        let piece = blocking(move || {
            let mut buffer = vec![0; wanted];
            let read = read_full(&reading.file, &mut buffer, &reading.path)?;
            buffer.truncate(read);
            Ok((reading, buffer))
        });
        let message = match piece.await {
            Ok((_, buffer)) if buffer.is_empty() => return,
            Ok((same, buffer)) => {
                reading = same;
                rest -= buffer.len() as u64;
                Ok(v1::FileChunk { data: Bytes::from(buffer) })
            }
            Err(error) => {
                let _ = chunks.send(Err(error.into())).await;
                return;
            }
        };
        if chunks.send(message).await.is_err() {
            return;
        }
    }
}
