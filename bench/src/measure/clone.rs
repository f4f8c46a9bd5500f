//! A repository into a workspace.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use emergent_test_support::GitServer;
use serde_json::json;
use tokio::process::Command;

use super::spread;
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::memory::Watched;
use crate::report::{Row, Section};
use crate::server::{ServerSetup, with_server};
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**clone**: the git tool clones 200 files of 1 MiB that cannot be compressed, through the broker, \
    into the disk of a workspace without a network; bare is `git clone` by the host of the same server, which is \
    git's own `http-backend` on loopback. Growth is the kernel's peak of the server's resident set, less the \
    resident set before.";

const MOST: f64 = 1.25;
const MOST_GROWTH: u64 = 32 << 20;

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let git = GitServer::start(None);
    git.create_repository("large");
    git.run(
        "large",
        "set -eu; work=$(mktemp -d); git clone -q \"$1\" \"$work\"; cd \"$work\"
         head -c 209715200 /dev/urandom | split -b 1048576 -a 3 -d - file-; git add .
         git -c user.name=a -c user.email=a@b commit -qm large; git push -q origin HEAD; cd /; rm -rf \"$work\"
         git -C \"$1\" -c core.bigFileThreshold=1 repack -qad",
    );
    let folder = bench.folder("clone-bare")?;
    let setup = ServerSetup { git_host: Some(git.origin()), ..bench.server("clone", 10)? };
    let section = with_server(&setup, async |server| {
        let mut workspace = Workspace::create(server.endpoint()).await?;
        let (mut ours, mut bare, mut growth) = (Samples::default(), Samples::default(), 0);
        for round in 0..bench.rounds(5, 1) {
            let watched = Watched::begin(server.pid())?;
            let name = format!("copy-{round}");
            let request =
                json!({"action": "clone", "repository_url": git.url("large"), "depth": 0, "path": name});
            let start = Instant::now();
            workspace.post("git", &request).await?;
            ours.add_since(start);
            growth = watched.growth()?.max(growth);
            workspace.bash(&format!("test -f {name}/file-199 && rm -r {name}")).await?;

            let copy = folder.join(name);
            let start = Instant::now();
            let cloned =
                Command::new("git").args(["clone", "-q", &git.url("large")]).arg(&copy).status().await;
            bare.add_since(start);
            ensure!(cloned.context("git cannot be started")?.success(), "git could not clone");
            std::fs::remove_dir_all(&copy)?;
        }
        let rows = vec![
            Row::new("clone of 200 MiB", spread(&ours)?).beside(spread(&bare)?).target(Target::Ratio(MOST)),
            Row::new("growth of the server during a clone of 200 MiB", Figure::Bytes(growth))
                .target(Target::AtMost(Figure::Bytes(MOST_GROWTH))),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await;
    std::fs::remove_dir_all(&folder)?;
    section
}
