//! A background process, as clients see it.

use emergent_agent_client::ProcessInfo;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// A background process.
#[derive(Serialize, ToSchema)]
pub(crate) struct Process {
    /// Names it in other calls.
    process_id: u64,
    /// Its number inside the sandbox.
    pid: u32,
    /// What was run.
    command: String,
    /// When it was started, by the sandbox's clock.
    #[serde(with = "time::serde::rfc3339")]
    started_at: OffsetDateTime,
    /// Whether it still runs.
    status: ProcessStatus,
    /// 0 is success; 128 + signal when a signal ended it; null while it runs.
    #[schema(required = true)]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[schema(required = true)]
    signal: Option<u32>,
    /// Whether the workspace ran out of memory while it ran.
    oom_killed: bool,
    /// How much it has printed.
    stdout_bytes: u64,
    /// How much it has printed to standard error.
    stderr_bytes: u64,
}

/// Whether a background process still runs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ProcessStatus {
    /// It runs.
    Running,
    /// It has ended.
    Exited,
}

impl From<ProcessInfo> for Process {
    fn from(process: ProcessInfo) -> Self {
        let started = i128::from(process.started_unix_ms) * 1_000_000;
        Self {
            process_id: process.process_id,
            pid: process.pid,
            command: process.command,
            // The sandbox says so; it may say anything.
            started_at: OffsetDateTime::from_unix_timestamp_nanos(started)
                .unwrap_or(OffsetDateTime::UNIX_EPOCH),
            status: if process.exit.is_some() { ProcessStatus::Exited } else { ProcessStatus::Running },
            exit_code: process.exit.map(|exit| exit.code),
            signal: process.exit.and_then(|exit| exit.signal),
            oom_killed: process.exit.is_some_and(|exit| exit.oom_killed),
            stdout_bytes: process.stdout_bytes,
            stderr_bytes: process.stderr_bytes,
        }
    }
}
