//! Tool calls beside fifty live workspaces and ten thousand rows, on both databases.

use std::time::{Duration, Instant};

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
    nothing else, in turn with the same on a server with 49 more live workspaces and 10,000 rows in the table, \
    five hundred reads here and five hundred there, so that whatever else the machine does meets both. The rows \
    are made through the API: creates that nobody waits for and that no provider can serve. Bare is the empty \
    server, and the ratio is of the 99th percentiles. Then pages of the list as it comes without parameters, on \
    the server with all the rows, over one connection that stays open: the first page, and the one after it.";

const LIVE: usize = 50;
const ROWS: usize = 10_000;
const AT_ONCE: usize = 8;
const FILE: &str = "small.rs";

/// How often a page is asked for, and how long it may take.
const PAGES: usize = 200;
const PAGE_LIMIT: Duration = Duration::from_millis(10);

/// Reads before the other server's turn, and how many turns each has.
const TURN: usize = 500;
const TURNS: usize = 20;

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let setup = |name: &str| bench.server(&format!("population-{name}"), LIVE as u32 + 10);
    let mut rows = Vec::new();
    rows.extend(measure(bench, &setup("sqlite")?, &setup("sqlite-alone")?).await?.rows("SQLite"));
    let postgres = PostgresServer::start(Durability::Full)?;
    let on_postgres = |name| -> Result<ServerSetup> {
        Ok(ServerSetup { database_url: Some(postgres.create_database()?), ..setup(name)? })
    };
    let measured = measure(bench, &on_postgres("postgres")?, &on_postgres("postgres-alone")?).await?;
    rows.extend(measured.rows("PostgreSQL"));
    Ok(Section::new(METHOD, rows))
}

/// What was measured on one database.
struct Population {
    crowded: Spread,
    alone: Spread,
    pages: Spread,
}

impl Population {
    fn rows(self, database: &str) -> [Row; 2] {
        let reads = format!("read beside 50 workspaces and 10,000 rows, {database}: p99");
        let list = format!("list of 10,000 workspaces, one page, {database}");
        [
            Row::new(reads, Figure::Time(self.crowded.p99))
                .beside(Figure::Time(self.alone.p99))
                .target(Target::Ratio(1.5)),
            Row::new(list, self.pages).target(Target::AtMost(Figure::Time(PAGE_LIMIT))),
        ]
    }
}

/// In a crowd, and alone.
async fn measure(bench: &Bench, crowded: &ServerSetup, alone: &ServerSetup) -> Result<Population> {
    with_server(crowded, async |crowded| {
        with_server(alone, async |alone| {
            make_rows(crowded.endpoint(), bench.rounds(ROWS, 50)).await?;
            let mut in_a_crowd = a_workspace(crowded.endpoint()).await?;
            for _ in 1..bench.rounds(LIVE, 3) {
                Workspace::create(crowded.endpoint()).await?;
            }
            let mut by_itself = a_workspace(alone.endpoint()).await?;
            let (mut there, mut here) = (Samples::default(), Samples::default());
            // The first turn of each only warms up.
            for turn in 0..=bench.rounds(TURNS, 1) {
                let (first, second) =
                    (reads(bench, &mut in_a_crowd).await?, reads(bench, &mut by_itself).await?);
                if turn > 0 {
                    there.extend(first);
                    here.extend(second);
                }
            }
            let pages = list_pages(crowded.endpoint(), bench.rounds(PAGES, 3)).await?;
            Ok(Population { crowded: spread(&there)?, alone: spread(&here)?, pages: spread(&pages)? })
        })
        .await
    })
    .await
}

async fn a_workspace(endpoint: &Endpoint) -> Result<Workspace> {
    let mut workspace = Workspace::create(endpoint).await?;
    workspace.write(FILE, &two_kibibytes()).await?;
    Ok(workspace)
}

async fn reads(bench: &Bench, workspace: &mut Workspace) -> Result<Vec<Duration>> {
    let mut durations = Vec::new();
    for _ in 0..bench.rounds(TURN, 20) {
        let start = Instant::now();
        workspace.read(FILE).await?;
        durations.push(start.elapsed());
    }
    Ok(durations)
}

/// The first page and the one after it, in turn.
async fn list_pages(endpoint: &Endpoint, rounds: usize) -> Result<Samples> {
    let mut connection = Connection::open(endpoint).await?;
    let mut pages = Samples::default();
    // The first two only warm up.
    for round in 0..=rounds {
        let mut path = "/api/v1/agent/workspaces".to_owned();
        for _ in 0..2 {
            let start = Instant::now();
            let page = connection.call(Method::GET, &path, None).await?.json()?;
            let took = start.elapsed();
            ensure!(page["items"].as_array().is_some_and(|items| !items.is_empty()), "an empty page: {page}");
            if round > 0 {
                pages.add(took);
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            path = format!("/api/v1/agent/workspaces?cursor={next}");
        }
    }
    Ok(pages)
}

/// Rows of workspaces that failed: a provider that is not there was asked for.
async fn make_rows(endpoint: &Endpoint, count: usize) -> Result<()> {
    let worker = async || {
        let mut connection = Connection::open(endpoint).await?;
        for _ in 0..count.div_ceil(AT_ONCE) {
            let request = json!({"provider": "docker"});
            let path = "/api/v1/agent/workspaces?wait=false";
            let answer = connection.call(Method::POST, path, Some(&request)).await?;
            ensure!(answer.status.as_u16() == 202, "the server answered {}", answer.status);
        }
        Ok(())
    };
    try_join_all((0..AT_ONCE).map(|_| worker())).await.map(drop)
}
