//! What touches the disk: durable writes, stop, resume and destroy.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{spread, two_kibibytes};
use crate::bench::Bench;
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**disk**: a write over HTTP is answered when the new file and its folder are on the disk; \
    bare is `dd conv=fsync` of the same size on the same disk, by `dd`'s own clock. Stop ends the processes and \
    keeps the disk; resume counts when a command has answered.";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    with_server(&bench.server("disk", 10)?, async |server| {
        let mut workspace = Workspace::create(server.endpoint()).await?;
        let (mut writes, mut bare) = (Samples::default(), Samples::default());
        let content = two_kibibytes();
        for round in 0..bench.rounds(300, 10) {
            let start = Instant::now();
            workspace.write(&format!("written-{round}"), &content).await?;
            writes.add_since(start);
            bare.add(write_by_dd(&mut workspace, round).await?);
        }

        let (mut stops, mut resumes, mut destroys) =
            (Samples::default(), Samples::default(), Samples::default());
        for _ in 0..bench.rounds(20, 2) {
            let start = Instant::now();
            workspace.stop().await?;
            stops.add_since(start);
            bench.settle().await;
            let start = Instant::now();
            workspace.resume().await?;
            workspace.bash("true").await?;
            resumes.add_since(start);
            let mut other = Workspace::create(server.endpoint()).await?;
            other.bash("true").await?;
            let start = Instant::now();
            other.destroy().await?;
            destroys.add_since(start);
            bench.settle().await;
        }
        let rows = vec![
            Row::new("durable write of a 2 KiB file over HTTP", spread(&writes)?).beside(spread(&bare)?),
            Row::new("stop", spread(&stops)?),
            Row::new("resume until the first bash answer", spread(&resumes)?),
            Row::new("destroy", spread(&destroys)?),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await
}

/// Writes as much with `dd` in the sandbox, and gives what `dd` says it took.
async fn write_by_dd(workspace: &mut Workspace, round: usize) -> Result<Duration> {
    let command = format!("LC_ALL=C dd if=/dev/zero of=dd-{round} bs=2048 count=1 conv=fsync 2>&1");
    let said = workspace.bash(&command).await?;
    seconds_said(&said).with_context(|| format!("dd said: {said}"))
}

/// From a line such as `2048 bytes (2.0 kB, 2.0 KiB) copied, 0.00123 s, 1.7 MB/s`.
fn seconds_said(text: &str) -> Option<Duration> {
    let (_, after) = text.split_once(" copied, ")?;
    let (seconds, _) = after.split_once(" s,")?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dd_says() {
        let text =
            "1+0 records in\n1+0 records out\n2048 bytes (2.0 kB, 2.0 KiB) copied, 0.00125 s, 1.6 MB/s\n";
        assert_eq!(seconds_said(text), Some(Duration::from_micros(1250)));
        assert_eq!(seconds_said("dd: error"), None);
    }
}
