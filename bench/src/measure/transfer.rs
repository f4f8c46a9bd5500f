//! A gibibyte into a workspace and out of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::json;

use super::spread;
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::memory::Watched;
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**transfer**: an upload is answered when the file is on the disk; bare is `cp` of the same \
    file on the same disk, followed by `sync` of it, in the sandbox and by the shell's own clock. A download is \
    thrown away as it comes; bare is `cp` of the same file to `/dev/null`. Growth is the kernel's peak of the \
    server's resident set, less the resident set before.";

const BYTES: usize = 1 << 30;
const MOST_GROWTH: u64 = 32 << 20;

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    // Not zeros: nothing on the way may find out that there is nothing in it.
    let content: Bytes =
        (0..BYTES / 8).flat_map(|n| (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect();
    with_server(&bench.server("transfer", 10)?, async |server| {
        let mut workspace = Workspace::create(server.endpoint()).await?;
        workspace.bash("true").await?;
        let (mut up, mut bare_up) = (Samples::default(), Samples::default());
        let (mut down, mut bare_down) = (Samples::default(), Samples::default());
        let (mut up_growth, mut down_growth) = (0, 0);
        for _ in 0..bench.rounds(5, 1) {
            let watched = Watched::begin(server.pid())?;
            let start = Instant::now();
            workspace.upload("gibibyte", content.clone()).await?;
            up.add_since(start);
            up_growth = watched.growth()?.max(up_growth);

            bare_up.add(timed(&mut workspace, "cp gibibyte copy && sync copy").await?);
            workspace.bash("rm copy").await?;

            let watched = Watched::begin(server.pid())?;
            let start = Instant::now();
            let length = workspace.download("gibibyte").await?;
            down.add_since(start);
            down_growth = watched.growth()?.max(down_growth);
            ensure!(length == BYTES as u64, "{length} bytes came");
            bare_down.add(timed(&mut workspace, "cp gibibyte /dev/null").await?);
        }
        let growth = |what: &str, bytes| {
            Row::new(what, Figure::Bytes(bytes)).target(Target::AtMost(Figure::Bytes(MOST_GROWTH)))
        };
        let rows = vec![
            Row::new("upload of 1 GiB", spread(&up)?).beside(spread(&bare_up)?),
            growth("growth of the server during an upload of 1 GiB", up_growth),
            Row::new("download of 1 GiB", spread(&down)?).beside(spread(&bare_down)?),
            growth("growth of the server during a download of 1 GiB", down_growth),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await
}

/// What the shell says that a command took.
async fn timed(workspace: &mut Workspace, command: &str) -> Result<Duration> {
    let command = format!("TIMEFORMAT=%6R; time {{ {command}; }}");
    let answer = workspace.post("bash", &json!({"command": command, "timeout_ms": 120_000})).await?;
    ensure!(answer["exit_code"] == 0, "{answer}");
    let seconds = answer["stderr"].as_str().unwrap_or_default().trim().parse().context("no time")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}
