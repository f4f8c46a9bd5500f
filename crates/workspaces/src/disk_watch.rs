//! Disks whose limit no file system upholds: what is used is counted by the provider again and
//! again; near the limit there is a warning, and at the limit tools write nothing more.
//!
//! Programs in the sandbox can write on: that is what `monitored` says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use emergent_provider::DiskUse;
use emergent_types::{ByteSize, DiskEnforcement, WorkspaceStatus};
use time::OffsetDateTime;

use crate::ToolError;
use crate::actor::Request;
use crate::service::{Context, Entry};

/// From how much on there is a warning.
const WARN_PERCENT: u64 = 80;

/// How often a workspace that nobody uses is looked at: what runs in it may write by itself.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// For each second of counting, so many of rest: counting never takes more than a tenth of one
/// processor, however many files there are.
const REST: u32 = 9;

/// What is known of one disk.
#[derive(Default)]
pub(crate) struct DiskWatch {
    latest: Mutex<Option<Look>>,
}

#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    /// The latest use of the workspace when the count began.
    used_at: OffsetDateTime,
    /// `None`: its limit holds by itself, or it could not be counted.
    found: Option<DiskUse>,
    /// The line, in percent, whose warning the owner has heard; 0 is none.
    warned: u64,
}

impl DiskWatch {
    fn latest(&self) -> Option<Look> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted last; `None` where nothing is.
    pub(crate) fn found(&self) -> Option<DiskUse> {
        self.latest()?.found
    }

    fn set(&self, look: Look) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }
}

/// Refuses what does not fit.
pub(crate) fn check(entry: &Entry, path: &str, bytes: u64) -> Result<(), ToolError> {
    match counted(entry).1 {
        Some(found) if found.room() == 0 || found.room() < bytes => Err(full(entry, path, found, bytes)),
        _ => Ok(()),
    }
}

/// What is assumed of a disk that nobody has looked at yet.
fn nothing_used(entry: &Entry) -> Option<DiskUse> {
    let row = entry.view.borrow();
    (row.disk_enforcement == Some(DiskEnforcement::Monitored)).then(|| DiskUse {
        bytes: 0,
        max_bytes: row.resource_limits.disk.bytes(),
        files: 0,
        max_files: u64::MAX,
        uncounted: false,
    })
}

fn full(entry: &Entry, path: &str, found: DiskUse, wanted: u64) -> ToolError {
    ToolError::DiskFull { id: entry.id, path: path.to_owned(), used: describe(&found), wanted }
}

/// The room for something that comes little by little: what was left when it began, and no more
/// than later counts leave, in which it has its part.
pub(crate) struct Room {
    entry: Arc<Entry>,
    path: String,
    at_first: Option<DiskUse>,
    taken: u64,
    /// The latest count, and what was taken since.
    counted_at: Option<Instant>,
    since_then: u64,
}

impl Room {
    pub(crate) fn new(entry: Arc<Entry>, path: &str) -> Self {
        let (counted_at, at_first) = counted(&entry);
        Self { entry, path: path.to_owned(), at_first, taken: 0, counted_at, since_then: 0 }
    }

    /// Takes room for so many bytes more.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), ToolError> {
        let (counted_at, latest) = counted(&self.entry);
        if counted_at != self.counted_at {
            self.counted_at = counted_at;
            self.since_then = 0;
        }
        self.taken = self.taken.saturating_add(bytes);
        self.since_then = self.since_then.saturating_add(bytes);
        for (found, wanted) in [(self.at_first, self.taken), (latest, self.since_then)] {
            if let Some(found) = found.filter(|found| found.room() < wanted) {
                return Err(full(&self.entry, &self.path, found, self.taken));
            }
        }
        Ok(())
    }
}

/// What is known of a disk, and since when.
fn counted(entry: &Entry) -> (Option<Instant>, Option<DiskUse>) {
    match entry.presence.disk.latest() {
        Some(look) => (Some(look.at), look.found),
        None => (None, nothing_used(entry)),
    }
}

/// Looks at every such disk for ever.
pub(crate) async fn watch_disks(context: Arc<Context>) {
    loop {
        let began = Instant::now();
        for entry in context.registry.filter(is_watched) {
            look_at(&context, &entry).await;
        }
        tokio::time::sleep(context.options.sweep_interval.max(began.elapsed() * REST)).await;
    }
}

fn is_watched(entry: &Entry) -> bool {
    let row = entry.view.borrow();
    // Nothing is written by what stands still, nor can it be asked.
    row.status == WorkspaceStatus::Ready
        && row.disk_enforcement == Some(DiskEnforcement::Monitored)
        && !entry.presence.resting.is_so()
}

async fn look_at(context: &Context, entry: &Entry) {
    if !is_watched(entry) {
        return;
    }
    let (kind, limit) = {
        let row = entry.view.borrow();
        (row.provider, row.resource_limits.disk)
    };
    let (watch, activity) = (&entry.presence.disk, &entry.presence.activity);
    let used_at = activity.last_used_at();
    let before = watch.latest();
    let is_due =
        |look: Look| activity.running() > 0 || used_at != look.used_at || look.at.elapsed() >= IDLE_INTERVAL;
    if !before.is_none_or(is_due) {
        return;
    }
    let Some(provider) = context.orchestrator.provider(kind) else { return };
    let id = entry.id;
    let found = match provider.disk_use(id).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(workspace = %id, %error, "the disk of workspace {id} was not measured: {error}");
            before.and_then(|look| look.found)
        }
    };
    let percent = found.map_or(0, |found| found.percent());
    let mut warned = before.map_or(0, |look| look.warned);
    if percent < warned {
        warned = if percent < WARN_PERCENT { 0 } else { WARN_PERCENT };
    }
    for (line, event, warning) in [
        (
            WARN_PERCENT,
            "disk_nearly_full",
            format!("more than {WARN_PERCENT} % of the disk limit of {limit} were used"),
        ),
        (
            100,
            "disk_full",
            format!("the disk limit of {limit} was reached; tools write nothing more until there is room"),
        ),
    ] {
        // An owner that is too busy to hear it is told the next time.
        if (warned + 1..=percent).contains(&line) && entry.tell(Request::Warn(warning.clone())) {
            warned = line;
            let used = found.map(|found| describe(&found)).unwrap_or_default();
            tracing::warn!(workspace = %id, event, "workspace {id}: {warning} ({used})");
        }
    }
    watch.set(Look { at: Instant::now(), used_at, found, warned });
}

fn describe(found: &DiskUse) -> String {
    if found.uncounted {
        return "folders are nested too deeply, or files have too many names, to be counted".to_owned();
    }
    // Whole mebibytes: down to the byte, it has changed since.
    let [used, max] = [found.bytes, found.max_bytes].map(|bytes| ByteSize::from_mib(bytes >> 20));
    if found.max_files == u64::MAX {
        return format!("{used} of {max} are used");
    }
    format!("{used} of {max} and {} of {} files are used", found.files, found.max_files)
}
