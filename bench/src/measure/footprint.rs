//! What the server and the agent hold in memory, and how long the server takes to start.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use super::{spread, two_kibibytes};
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::http::Endpoint;
use crate::memory::{AgentProcesses, resident};
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**footprint**: resident sets, program text included. The server is looked at two seconds \
    after it says that it listens, and two seconds after a load of creates, commands and files from eight \
    connections at once; the agent after its first commands.";

const MOST_SERVER: u64 = 40 << 20;
const MOST_AGENT: u64 = 6 << 20;
const QUIET: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 8;

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let (mut first_starts, mut later_starts) = (Samples::default(), Samples::default());
    for round in 0..bench.rounds(10, 1) {
        let setup = bench.server(&format!("start-{round}"), 10)?;
        with_server(&setup, async |server| {
            first_starts.add(server.started_within());
            server.kill_and_restart()?;
            later_starts.add(server.started_within());
            Ok(())
        })
        .await?;
    }
    with_server(&bench.server("footprint", 10)?, async |server| {
        tokio::time::sleep(QUIET).await;
        let idle = resident(server.pid())?;

        let mut workspace = Workspace::create(server.endpoint()).await?;
        workspace.bash("true").await?;
        workspace.write("small.rs", &two_kibibytes()).await?;
        workspace.read("small.rs").await?;
        let processes = AgentProcesses::of_workspace(workspace.id())?;
        let (agent, init) = (resident(processes.agent)?, resident(processes.init)?);
        workspace.destroy().await?;

        let rounds = bench.rounds(200, 5);
        try_join_all((0..CONNECTIONS).map(|_| load(server.endpoint(), rounds))).await?;
        tokio::time::sleep(QUIET).await;
        let after_load = resident(server.pid())?;

        let at_most = |what: &str, bytes: u64, most: u64| {
            Row::new(what, Figure::Bytes(bytes)).target(Target::AtMost(Figure::Bytes(most)))
        };
        let rows = vec![
            at_most("memory of the server, idle", idle, MOST_SERVER),
            at_most("memory of the server, idle after a load", after_load, MOST_SERVER),
            at_most("memory of the agent", agent, MOST_AGENT),
            Row::new("memory of the sandbox's init", Figure::Bytes(init)),
            Row::new("`emergent serve` until it listens, new data folder", spread(&first_starts)?),
            Row::new("`emergent serve` until it listens, after kill -9", spread(&later_starts)?),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await
}

/// What one client does.
async fn load(endpoint: &Endpoint, rounds: usize) -> Result<()> {
    let began = Instant::now();
    let mut workspace = Workspace::create(endpoint).await?;
    for round in 0..rounds {
        workspace.bash("echo hello; ls /").await?;
        let path = format!("file-{}", round % 16);
        workspace.write(&path, &two_kibibytes()).await?;
        workspace.read(&path).await?;
        if began.elapsed() > Duration::from_secs(30) {
            break;
        }
    }
    workspace.destroy().await
}
