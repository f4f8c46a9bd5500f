//! `kill -9` of the server while workspaces run: how long until all of them answer again.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use super::spread;
use crate::bench::Bench;
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::{Workspace, until_it_works};

const METHOD: &str = "**recovery**: from the signal, over the start of a new server on the same data, until a \
    command has answered in every one of ten workspaces; a file written before must still be there.";

const WORKSPACES: usize = 10;
const LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let rounds = bench.rounds(10, 1);
    with_server(&bench.server("recovery", WORKSPACES as u32)?, async |server| {
        let mut ids = Vec::new();
        for _ in 0..WORKSPACES {
            let mut workspace = Workspace::create(server.endpoint()).await?;
            let id = workspace.id().to_owned();
            workspace.write("mark", &id).await?;
            ids.push(id);
        }
        let mut recoveries = Samples::default();
        for _ in 0..rounds {
            let start = Instant::now();
            server.kill_and_restart()?;
            let endpoint = server.endpoint();
            let answers = try_join_all(ids.iter().map(|id| {
                until_it_works(LIMIT, async || Workspace::open(endpoint, id).await?.bash("cat mark").await)
            }))
            .await?;
            recoveries.add_since(start);
            ensure!(answers == ids, "after a restart the workspaces are not the same: {answers:?}");
        }
        let what = format!("kill -9 of the server until {WORKSPACES} workspaces answer");
        let rows = vec![Row::new(what, spread(&recoveries)?)];
        Ok(Section::new(METHOD, rows))
    })
    .await
}
