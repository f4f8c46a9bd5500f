//! Changes of files while they happen.
//!
//! ```text
//!  kernel's queue (bounded) ─► Watcher: which folder, what, pairs of a rename ─► a few events
//!                                 ▲ new folders are watched, then looked through
//! ```
//!
//! Nothing is queued here: a reader that does not keep up lets the kernel's queue run over,
//! and is told that changes were lost.

mod folders;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use emergent_protocol::v1;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::Status;

use crate::agent::Shared;
use crate::error::CallError;
use crate::files;
use crate::readiness::watched;

use watcher::{Batch, Watcher};

/// Watches at once. The kernel allows an account 128 in all, and programs want some too.
const MAX_WATCHES: usize = 32;

/// Events waiting for the connection.
const QUEUED_EVENTS: usize = 64;

/// How long after the first half of a rename the second is waited for.
const SECOND_HALF: Duration = Duration::from_millis(20);

/// What the watches of an agent share.
pub(crate) struct Watches {
    places: Arc<Semaphore>,
}

impl Default for Watches {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_WATCHES)) }
    }
}

/// The changes of a watch.
pub(crate) type Events = mpsc::Receiver<Result<v1::WatchEvent, Status>>;

type Sender = mpsc::Sender<Result<v1::WatchEvent, Status>>;

/// Watches a path. Dropping the events ends the watch.
pub(crate) async fn watch(shared: &Arc<Shared>, request: v1::WatchRequest) -> Result<Events, CallError> {
    let too_many = |_| CallError::TooMany { what: "watches", limit: MAX_WATCHES };
    let place = shared.watches.places.clone().try_acquire_owned().map_err(too_many)?;
    let workspace = shared.workspace.clone();
    let watcher = files::blocking(move || {
        let path = match request.path.as_str() {
            "" => {
                workspace.ensure();
                workspace.path().to_owned()
            }
            path => files::resolve(workspace.path(), path)?,
        };
        Watcher::new(&files::plain(&path), request.recursive)
    })
    .await?;
    let (sender, events) = mpsc::channel(QUEUED_EVENTS);
    let failed = |errno| CallError::File { path: "inotify".into(), errno };
    let ready = watched(watcher.descriptor()).map_err(failed)?;
    tokio::spawn(async move {
        let caller = sender.clone();
        tokio::select! {
            () = run(watcher, ready, sender, place) => {}
            () = caller.closed() => {}
        }
    });
    Ok(events)
}

async fn run(
    mut watcher: Watcher,
    ready: AsyncFd<Arc<std::os::fd::OwnedFd>>,
    sender: Sender,
    _place: OwnedSemaphorePermit,
) {
    let watching = v1::WatchEvent { kind: v1::ChangeKind::Watching.into(), ..Default::default() };
    if sender.send(Ok(watching)).await.is_err() {
        return;
    }
    loop {
        let stepped = files::blocking(move || {
            let batch = watcher.step();
            Ok((watcher, batch))
        });
        let Ok((same, Batch { events, more, half, ended })) = stepped.await else { return };
        watcher = same;
        for event in events {
            if sender.send(Ok(event)).await.is_err() {
                return;
            }
        }
        if ended {
            return;
        }
        if more {
            continue;
        }
        let readable = async {
            if let Ok(mut guard) = ready.readable().await {
                // The next step reads until there is nothing.
                guard.clear_ready();
            }
        };
        if half {
            if tokio::time::timeout(SECOND_HALF, readable).await.is_err() {
                watcher.give_up_half();
            }
        } else {
            readable.await;
        }
    }
}
