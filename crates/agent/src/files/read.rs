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

use super::{blocking, kind, near_names, open_regular, path, read_full};

/// The pieces of a file.
pub(crate) type Chunks = mpsc::Receiver<Result<v1::FileChunk, Status>>;

/// How much is read at once: a few messages, so that a thread is not woken for each.
const READ_BYTES: usize = 4 * CHUNK_BYTES;

/// Opens a file and sends its bytes as they are asked for.
pub(crate) async fn read_file(
    shared: &Arc<Shared>,
    request: v1::ReadFileRequest,
) -> Result<Chunks, CallError> {
    let path = path::resolve(&shared.config.workspace, &request.path)?;
    let offset = request.offset;
    let (reading, opened) = blocking(move || {
        let (file, stat) = open_regular(&path).map_err(near_names::with_near_names)?;
        if offset != 0 {
            seek(&file, SeekFrom::Start(offset)).map_err(CallError::file(&path))?;
        }
        let opened = v1::FileChunk {
            data: Bytes::new(),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_unix_ms: kind::modified_unix_ms(&stat),
        };
        Ok((Reading { file, path }, opened))
    })
    .await?;
    let length = if request.length == 0 { u64::MAX } else { request.length };
    let (sender, chunks) = mpsc::channel(1);
    tokio::spawn(send(reading, opened, length, sender));
    Ok(chunks)
}

struct Reading {
    file: OwnedFd,
    path: PathBuf,
}

impl Reading {
    /// The next piece, empty at the end. Between two no thread waits for the reader.
    async fn next(self, rest: u64) -> Result<(Self, Bytes), CallError> {
        let wanted = usize::try_from(rest).unwrap_or(usize::MAX).min(READ_BYTES);
        blocking(move || {
            let mut buffer = vec![0; wanted];
            let read = read_full(&self.file, &mut buffer, &self.path)?;
            buffer.truncate(read);
            Ok((self, Bytes::from(buffer)))
        })
        .await
    }
}

/// The first message says what was opened; the others are pieces that share what was read.
async fn send(
    mut reading: Reading,
    mut opened: v1::FileChunk,
    mut rest: u64,
    chunks: mpsc::Sender<Result<v1::FileChunk, Status>>,
) {
    let mut piece = match reading.next(rest).await {
        Ok((same, piece)) => {
            reading = same;
            piece
        }
        Err(error) => {
            let _ = chunks.send(Err(error.into())).await;
            return;
        }
    };
    rest -= piece.len() as u64;
    opened.data = piece.split_to(piece.len().min(CHUNK_BYTES));
    if chunks.send(Ok(opened)).await.is_err() {
        return;
    }
    loop {
        // The next piece is read while this one is sent.
        let is_last = rest == 0;
        let next = async { if is_last { Ok((reading, Bytes::new())) } else { reading.next(rest).await } };
        let (sent, next) = tokio::join!(send_piece(&chunks, piece), next);
        if sent.is_err() {
            return;
        }
        match next {
            Ok((_, next)) if next.is_empty() => return,
            Ok((same, next)) => {
                reading = same;
                rest -= next.len() as u64;
                piece = next;
            }
            Err(error) => {
                let _ = chunks.send(Err(error.into())).await;
                return;
            }
        }
    }
}

async fn send_piece(
    chunks: &mpsc::Sender<Result<v1::FileChunk, Status>>,
    mut piece: Bytes,
) -> Result<(), mpsc::error::SendError<Result<v1::FileChunk, Status>>> {
    while !piece.is_empty() {
        let data = piece.split_to(piece.len().min(CHUNK_BYTES));
        chunks.send(Ok(v1::FileChunk { data, ..v1::FileChunk::default() })).await?;
    }
    Ok(())
}
