//! The ProcessOutput call: what a background process printed, and what it prints.

use std::sync::Arc;

use emergent_protocol::v1;
use tokio::sync::mpsc;
use tonic::Status as GrpcStatus;

use crate::agent::Shared;
use crate::error::CallError;

use super::ring::Ring;

/// The pieces of an output.
pub(crate) type Chunks = mpsc::Receiver<Result<v1::ProcessOutputChunk, GrpcStatus>>;

/// Sends what is kept from an offset on, and, when asked to follow, what comes until the
/// process has ended.
pub(crate) fn follow(shared: &Shared, request: v1::ProcessOutputRequest) -> Result<Chunks, CallError> {
    let process = shared.processes.find(request.process_id)?;
    let ring = process.ring(request.stream())?.clone();
    // One chunk under way: a reader that stalls misses what leaves the ring, and holds up
    // nothing.
    let (sender, chunks) = mpsc::channel(1);
    tokio::spawn(send(ring, request.offset, request.follow, sender));
    Ok(chunks)
}

async fn send(
    ring: Arc<Ring>,
    mut offset: u64,
    follow: bool,
    chunks: mpsc::Sender<Result<v1::ProcessOutputChunk, GrpcStatus>>,
) {
    let mut progress = ring.watch();
    loop {
        // Read before the ring, so that nothing written in between is missed.
        let finished = progress.borrow_and_update().finished;
        let (first, data) = ring.read(offset);
        if !data.is_empty() {
            offset = first + data.len() as u64;
            let chunk = v1::ProcessOutputChunk { offset: first, data };
            if chunks.send(Ok(chunk)).await.is_err() {
                return;
            }
        } else if finished || !follow {
            return;
        } else {
            tokio::select! {
                changed = progress.changed() => if changed.is_err() { return },
                () = chunks.closed() => return,
            }
        }
    }
}
