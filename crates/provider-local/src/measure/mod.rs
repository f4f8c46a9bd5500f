//! How much a sandbox has written where its disk is a folder of the host's, whose size no file
//! system limits.
//!
//! ```text
//!  server                                    helper (one short-lived process per count)
//!  ── request, one line of JSON ──────────►  least urgent of all, and without root in a user
//!                                            namespace of its own, where its account may
//!                                            look into folders that the guest has closed
//!                                            counts, from descriptor to descriptor
//!  ◄──────────── answer, one line of JSON ─  ends
//! ```
//!
//! Nothing of the guest's is opened but folders, one step at a time, no link is followed and no
//! mount crossed: whatever the guest does meanwhile, the walk stays in its disk.

mod helper;
mod walk;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use emergent_host_disk::Geometry;
use emergent_provider::{DiskUse, Operation, ProviderError};
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};

pub(crate) use helper::main as helper_main;

use crate::layout::DISK_FOLDER;
use crate::means::{DiskKind, Launcher};
use crate::options::HelperCommand;
use crate::process::wait_readable;
use crate::provider::{Host, KIND, step_error};
use crate::state::Observed;

/// What tells a helper that it is to count and not to launch.
pub(crate) const MEASURE_FLAG: &str = "--measure";

/// How long counting may take. A million files take seconds, from a slow disk a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// How much of a helper's answer is read.
const MAX_ANSWER: u64 = 4096;

/// A disk to be measured.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// The server's process: when it is gone, nobody waits.
    server: i32,
    disk: PathBuf,
    /// Whose the files are.
    launcher: Launcher,
    bounds: Bounds,
}

/// Beyond which nothing more is counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Bounds {
    bytes: u64,
    files: u64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    bytes: u64,
    files: u64,
    /// There is more, where it cannot be counted.
    uncounted: bool,
}

impl Host {
    /// What a sandbox uses of its disk, where that is a folder.
    pub(crate) fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        let record = match self.observe(id) {
            Observed::Running(record, ..) | Observed::Stopped(record) => record,
            Observed::Partial | Observed::Absent => {
                return Err(ProviderError::NotFound { provider: KIND, id });
            }
        };
        if record.disk != DiskKind::Folder {
            return Ok(None);
        }
        let allowed = Geometry::for_size(record.limits.disk.bytes());
        let request = Request {
            server: std::process::id() as i32,
            disk: self.layout.sandbox(id).join(DISK_FOLDER),
            launcher: record.launcher,
            bounds: Bounds { bytes: allowed.bytes(), files: allowed.inodes() },
        };
        let counted = count(&self.options.helper, &request).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                ProviderError::TimedOut { provider: KIND, operation: Operation::Measure, id, limit: LIMIT }
            }
            _ => step_error(Operation::Measure, id, "count", error),
        })?;
        Ok(Some(DiskUse {
            bytes: counted.bytes,
            max_bytes: allowed.bytes(),
            files: counted.files,
            max_files: allowed.inodes(),
            uncounted: counted.uncounted,
        }))
    }
}

/// Runs one helper to its end, from the thread that will see it through: the kernel kills the
/// helper when the thread that started it ends.
fn count(command: &HelperCommand, request: &Request) -> io::Result<Counted> {
    let mut child = Command::new(&command.program)
        .args(&command.args)
        .arg(MEASURE_FLAG)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let answer = converse(&mut child, request);
    // Has ended, or is to end.
    let _ = child.kill();
    let _ = child.wait();
    answer?.map_err(io::Error::other)
}

fn converse(child: &mut Child, request: &Request) -> io::Result<Result<Counted, String>> {
    let ended = || io::Error::other("the helper ended without an answer");
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ended());
    };
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stdin.write_all(&line)?;
    if !wait_readable(&stdout, Instant::now() + LIMIT)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = Vec::new();
    stdout.take(MAX_ANSWER).read_to_end(&mut answer)?;
    serde_json::from_slice(&answer).map_err(|_| ended())
}
