//! Joining a socket with the two streams of a call.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use emergent_protocol::{CHUNK_BYTES, v1};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Status, Streaming};

use crate::body::BrokenOff;

type Sender = mpsc::Sender<Result<v1::TunnelOutput, Status>>;

/// What is read at once at first; from a socket that brings much, a whole chunk.
const SMALL_READ: usize = 4 << 10;

/// How long a program may take to accept what a caller sent before it went away.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Moves bytes both ways until both directions have ended or the caller is gone. What came
/// before an end arrives before it, on either side.
pub(super) async fn run(
    read: impl AsyncRead + Unpin + Send + 'static,
    write: impl AsyncWrite + Unpin + Send + 'static,
    input: Streaming<v1::TunnelInput>,
    broken_off: BrokenOff,
    output: Sender,
    place: OwnedSemaphorePermit,
) {
    let mut inward = pin!(inward(input, write, broken_off));
    let mut outward = pin!(outward(read, output));
    let first = tokio::select! {
        ended = &mut outward => Some(ended),
        () = &mut inward => None,
    };
    match first {
        Some(Outward::ProgramEnded) => inward.await,
        // A caller that has said everything closes at once, and its close is heard before all
        // that it said has been passed on.
        Some(Outward::CallerGone) => {
            let _ = tokio::time::timeout(LAST_WORDS, inward).await;
        }
        None => {
            outward.await;
        }
    }
    drop(place);
}

/// Why nothing more goes to the control plane.
enum Outward {
    ProgramEnded,
    CallerGone,
}

/// From the sandbox to the control plane.
async fn outward(mut read: impl AsyncRead + Unpin, output: Sender) -> Outward {
    let message = |output| Ok(v1::TunnelOutput { output: Some(output) });
    if output.send(message(v1::tunnel_output::Output::Opened(v1::TunnelOpened {}))).await.is_err() {
        return Outward::CallerGone;
    }
    let mut buffer = BytesMut::new();
    let mut size = SMALL_READ;
    loop {
        buffer.reserve(size);
        let read = tokio::select! {
            read = read.read_buf(&mut buffer) => read,
            () = output.closed() => return Outward::CallerGone,
        };
        match read {
            // A reset is an end too; what comes after it is the caller's to find out.
            Ok(0) | Err(_) => return Outward::ProgramEnded,
            Ok(length) => size = if length >= size { (size * 4).min(CHUNK_BYTES) } else { size },
        }
        while !buffer.is_empty() {
            let piece = buffer.split_to(buffer.len().min(CHUNK_BYTES)).freeze();
            if output.send(message(v1::tunnel_output::Output::Data(piece))).await.is_err() {
                return Outward::CallerGone;
            }
        }
    }
}

/// From the control plane to the sandbox. A clean end closes this direction only.
async fn inward(
    mut input: Streaming<v1::TunnelInput>,
    mut write: impl AsyncWrite + Unpin,
    broken_off: BrokenOff,
) {
    while let Ok(Some(message)) = input.message().await {
        // Anything else is nothing a control plane sends; the direction ends.
        let Some(v1::tunnel_input::Input::Data(data)) = message.input else { break };
        if write.write_all(&data).await.is_err() {
            // The program takes no more. What it still says is passed on.
            return;
        }
    }
    if !broken_off.is_set() {
        let _ = write.shutdown().await;
    }
}
