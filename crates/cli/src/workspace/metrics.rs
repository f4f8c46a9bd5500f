//! `emergent workspace metrics`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, SpaceMetrics, WorkspaceMetrics};
use emergent_types::{ByteSize, WorkspaceId};

use crate::exit::Failure;
use crate::output::{Output, table};

#[derive(Debug, Args)]
pub(crate) struct Metrics {
    /// Which
    id: WorkspaceId,
}

impl Metrics {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        output.result(&client.workspace_metrics(self.id).await?, rows);
        Ok(ExitCode::SUCCESS)
    }
}

const UNKNOWN: &str = "-";

fn rows(metrics: &WorkspaceMetrics) -> String {
    let percent =
        |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.1} %"));
    let space = |name: &str, space: &SpaceMetrics| {
        vec![
            name.to_owned(),
            space.used_bytes.map_or_else(|| UNKNOWN.to_owned(), size),
            size(space.limit_bytes),
            percent(space.used_percent),
        ]
    };
    let time = metrics.cpu.time_seconds;
    let rows = [
        vec![
            "cpu".to_owned(),
            time.map_or_else(|| UNKNOWN.to_owned(), |time| format!("{time:.1} s")),
            metrics.cpu.limit.to_string(),
            percent(metrics.cpu.used_percent),
        ],
        space("memory", &metrics.memory),
        space("disk", &metrics.disk),
        vec![
            "processes".to_owned(),
            metrics.processes.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string()),
            UNKNOWN.to_owned(),
            UNKNOWN.to_owned(),
        ],
    ];
    table(&["WHAT", "USED", "LIMIT", "OF IT"], rows)
}

/// Whole mebibytes: more is not to be read anyway.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => ByteSize::from_bytes(bytes).to_string(),
        _ => ByteSize::from_mib(bytes >> 20).to_string(),
    }
}
