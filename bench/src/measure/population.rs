//! Tool calls beside fifty live workspaces and ten thousand rows, on both databases.

use std::time::Instant;

use anyhow::{Result, ensure};
use emergent_test_support::{Durability, PostgresServer};
use futures::future::try_join_all;
use http::Method;
use serde_json::json;

use super::{spread, two_kibibytes};
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::http::{Connection, Endpoint};
use crate::report::{Row, Section};
use crate::server::{ServerSetup, with_server};
use crate::stats::{Samples, Spread};
use crate::workspace::Workspace;

const METHOD: &str = "**population**: reads of a 2 KiB file in one workspace, one at a time, on a server that has \
    nothing else; then the same with 49 more live workspaces and 10,000 rows in the table. The rows are made \
    through the API: creates that nobody waits for and that no provider can serve. Bare is the first, and the \
    ratio is of the 99th percentiles.";

const LIVE: usize = 50;
const ROWS: usize = 10_000;
const AT_ONCE: usize = 8;
const FILE: &str = "small.rs";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let sqlite = bench.server("population-sqlite", LIVE as u32 + 10)?;
    let mut rows = vec![row("SQLite", measure(bench, &sqlite).await?)];
    let postgres = PostgresServer::start(Durability::Full)?;
    let on_postgres = ServerSetup {
        database_url: Some(postgres.create_database()?),
        ..bench.server("population-postgres", LIVE as u32 + 10)?
    };
    rows.push(row("PostgreSQL", measure(bench, &on_postgres).await?));
    Ok(Section { method: METHOD, rows, breakdowns: Vec::new() })
}

fn row(database: &str, (crowded, alone): (Spread, Spread)) -> Row {
    Row::new(format!("read beside 50 workspaces and 10,000 rows, {database}: p99"), Figure::Time(crowded.p99))
        .beside(Figure::Time(alone.p99))
        .target(Target::Ratio(1.5))
}

/// In a crowd, and alone.
async fn measure(bench: &Bench, setup: &ServerSetup) -> Result<(Spread, Spread)> {
    with_server(setup, async |server| {
        let endpoint = server.endpoint().clone();
        let mut workspace = Workspace::create(&endpoint).await?;
        workspace.write(FILE, &two_kibibytes()).await?;
        let alone = reads(bench, &mut workspace).await?;
        make_rows(&endpoint, bench.rounds(ROWS, 50)).await?;
        let live = bench.rounds(LIVE, 3);
        for _ in 1..live {
            Workspace::create(&endpoint).await?;
        }
        let crowded = reads(bench, &mut workspace).await?;
        Ok((crowded, alone))
    })
    .await
}

async fn reads(bench: &Bench, workspace: &mut Workspace) -> Result<Spread> {
    let mut samples = Samples::default();
    for round in 0..bench.rounds(5500, 20) {
        let start = Instant::now();
        workspace.read(FILE).await?;
        // The first tenth only warms up.
        if round >= bench.rounds(500, 0) {
            samples.add_since(start);
        }
    }
    spread(&samples)
}

/// Rows of workspaces that failed: a provider that is not there was asked for.
async fn make_rows(endpoint: &Endpoint, count: usize) -> Result<()> {
    let worker = async || {
        let mut connection = Connection::open(endpoint).await?;
        for _ in 0..count.div_ceil(AT_ONCE) {
            let request = json!({"provider": "firecracker"});
            let path = "/api/v1/agent/workspaces?wait=false";
            let answer = connection.call(Method::POST, path, Some(&request)).await?;
            ensure!(answer.status.as_u16() == 202, "the server answered {}", answer.status);
        }
        Ok(())
    };
    try_join_all((0..AT_ONCE).map(|_| worker())).await.map(drop)
}
