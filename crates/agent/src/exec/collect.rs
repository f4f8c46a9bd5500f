//! A program that is run for its answer: the agent reads what it prints.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::agent::Shared;
use crate::error::CallError;

use super::command::{Command, EndOnDrop, Status};
use super::pump::{End, Sink, pump};
use super::{GRACE, Plan};

/// Bytes kept of standard error: it ends up in a message for people.
const MAX_COMPLAINT: usize = 16 << 10;

/// What a program printed.
pub(crate) struct Collected {
    /// How it ended; killed when it printed too much.
    pub(crate) status: Status,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// There was more, and the program was ended when that came.
    pub(crate) cut: bool,
}

/// Runs a program to its end, or until it has printed `limit` bytes. Dropping this ends it with
/// everything it started, and nothing it started outlives its answer.
pub(crate) async fn collect(shared: &Arc<Shared>, plan: Plan, limit: usize) -> Result<Collected, CallError> {
    let Command { tree, status, mut stdout, mut stderr, .. } = shared.launcher.launch(plan).await?;
    let unless_done = EndOnDrop::new(tree.clone());
    let full = Notify::new();
    let mut answer = Kept { bytes: Vec::new(), limit, full: Some(&full) };
    let mut complaint = Kept { bytes: Vec::new(), limit: MAX_COMPLAINT, full: None };
    let ended = {
        let everything = async {
            tokio::join!(
                Status::reached(status.clone()),
                pump(&mut stdout, status.clone(), &mut answer),
                pump(&mut stderr, status.clone(), &mut complaint),
            )
        };
        tokio::select! {
            biased;
            () = full.notified() => None,
            ended = everything => Some(ended),
        }
    };
    let (status, cut) = match ended {
        Some((status, End::Closed, End::Closed)) => {
            unless_done.let_go();
            (status, false)
        }
        Some((status, ..)) => (status, false),
        None => {
            // Waited for, because it may hold a lock that the next one needs.
            tree.end(GRACE).await;
            (Status::KILLED, true)
        }
    };
    Ok(Collected { status, stdout: answer.bytes, stderr: complaint.bytes, cut })
}

/// The first bytes of an output.
struct Kept<'a> {
    bytes: Vec<u8>,
    limit: usize,
    /// Told when something does not fit.
    full: Option<&'a Notify>,
}

impl Sink for Kept<'_> {
    async fn take(&mut self, data: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(data.get(..room).unwrap_or(data));
        if let Some(full) = self.full.filter(|_| data.len() > room) {
            full.notify_one();
        }
    }
}
