//! Moving a command's output from its pipe to where it is kept or sent.
//!
//! A pipe ends when its last writer has closed it, and a background child (`server &`) holds
//! it open for as long as it lives. The answer does not wait for that: what the command had
//! written when it ended is in the pipe by then and is read to the last byte, then the pipe
//! has [`PATIENCE`] to end. After that the answer is given, and the pipe is emptied for the
//! rest of its life, so that the child neither blocks on it nor dies of SIGPIPE.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::Instant;

use super::command::{Status, bytes_waiting};

/// How long after the command's end its children's output is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// What is read at once: first a page or two, then, from a command that prints much, as much
/// as a pipe holds.
const SMALL_READ: usize = 8 << 10;
const LARGE_READ: usize = emergent_protocol::CHUNK_BYTES;

/// Takes output.
pub(crate) trait Sink {
    /// Takes some bytes. While it waits, the pipe fills and the command blocks.
    fn take(&mut self, data: &[u8]) -> impl Future<Output = ()> + Send;
}

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// No writer is left.
    Closed,
    /// Something the command left behind still has it open.
    HeldOpen,
}

/// Reads to the end, or until [`PATIENCE`] after the command's own end.
pub(crate) async fn pump(
    source: &mut pipe::Receiver,
    mut status: watch::Receiver<Option<Status>>,
    sink: &mut impl Sink,
) -> End {
    let mut buffer = vec![0; SMALL_READ];
    // Set when the command has ended.
    let mut last_call: Option<LastCall> = None;
    loop {
        let read = tokio::select! {
            biased;
            read = source.read(&mut buffer) => read.unwrap_or(0),
            () = LastCall::missed(last_call.as_ref()) => return End::HeldOpen,
            _ = status.wait_for(Option::is_some), if last_call.is_none() => {
                last_call = Some(LastCall::new(bytes_waiting(source)));
                continue;
            }
        };
        let Some(data) = buffer.get(..read).filter(|data| !data.is_empty()) else { return End::Closed };
        sink.take(data).await;
        if last_call.as_mut().is_some_and(|call| call.is_over_after(read)) {
            return End::HeldOpen;
        }
        if read == buffer.len() && read < LARGE_READ {
            buffer.resize(LARGE_READ, 0);
        }
        // A command that prints at full speed always has something to read: let others in.
        tokio::task::yield_now().await;
    }
}

/// What is still read after the command's end.
struct LastCall {
    /// What the command itself had written; read even if that takes longer.
    owed: u64,
    until: Instant,
}

impl LastCall {
    fn new(owed: u64) -> Self {
        Self { owed, until: Instant::now() + PATIENCE }
    }

    fn is_over_after(&mut self, read: usize) -> bool {
        self.owed = self.owed.saturating_sub(read as u64);
        self.owed == 0 && Instant::now() >= self.until
    }

    /// Returns when there is nothing more to wait for. Never while something is owed: it is in
    /// the pipe, even if the runtime has not been told of it yet.
    async fn missed(call: Option<&Self>) {
        match call {
            Some(Self { owed: 0, until }) => tokio::time::sleep_until(*until).await,
            _ => std::future::pending().await,
        }
    }
}

/// Reads to the end into `sink`, however long that takes.
pub(crate) async fn drain(mut source: pipe::Receiver, sink: &mut impl Sink) {
    let mut buffer = [0; 4 << 10];
    loop {
        match source.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => sink.take(buffer.get(..read).unwrap_or_default()).await,
        }
        tokio::task::yield_now().await;
    }
}
