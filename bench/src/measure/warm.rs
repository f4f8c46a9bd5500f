//! Sandboxes that were made before anybody asked for them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;

use super::spread;
use crate::bench::Bench;
use crate::figure::Target;
use crate::http::{Connection, Endpoint};
use crate::report::{Row, Section};
use crate::server::{ServerSetup, with_server};
use crate::stats::Samples;
use crate::workspace::{Workspace, until_it_works};

const METHOD: &str = "**warm**: a pool of four that is full before each create; bare is the same create with \
    `warm_start` off, in turn. Over HTTP, a new connection each.";

const SIZE: u32 = 4;
const FILLED_WITHIN: Duration = Duration::from_secs(120);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let setup = ServerSetup { warm_pool_size: SIZE, ..bench.server("warm", 10)? };
    let rounds = bench.rounds(100, 3);
    let rows = with_server(&setup, async |server| claims(server.endpoint(), "local", rounds).await).await?;
    Ok(Section::new(METHOD, rows))
}

/// Creates out of a pool beside cold ones.
pub(super) async fn claims(endpoint: &Endpoint, provider: &str, rounds: usize) -> Result<Vec<Row>> {
    let (mut claims, mut answers, mut cold) = (Samples::default(), Samples::default(), Samples::default());
    // The first of each only warms up.
    for round in 0..=rounds {
        until_it_works(FILLED_WITHIN, async || is_full(endpoint).await).await?;
        let start = Instant::now();
        let mut workspace = Workspace::create_default(endpoint, true).await?;
        let claimed = start.elapsed();
        workspace.bash("true").await?;
        let answered = start.elapsed();
        workspace.destroy().await?;
        until_it_works(FILLED_WITHIN, async || is_full(endpoint).await).await?;
        let start = Instant::now();
        let mut workspace = Workspace::create_default(endpoint, false).await?;
        workspace.bash("true").await?;
        let cold_took = start.elapsed();
        workspace.destroy().await?;
        if round > 0 {
            claims.add(claimed);
            answers.add(answered);
            cold.add(cold_took);
        }
    }
    let hits = pool(endpoint).await?["hits"].as_u64().context("no hits")?;
    ensure!(hits == rounds as u64 + 1, "{hits} of {} creates were served by the pool", rounds + 1);
    let target = Target::Percentiles { p50: Duration::from_millis(10), p99: Duration::from_millis(50) };
    Ok(vec![
        Row::new(format!("warm claim on {provider}: create"), spread(&claims)?).target(target),
        Row::new(format!("warm claim on {provider}: create until the first bash answer"), spread(&answers)?)
            .beside(spread(&cold)?),
    ])
}

async fn pool(endpoint: &Endpoint) -> Result<serde_json::Value> {
    let mut connection = Connection::open(endpoint).await?;
    connection.call(Method::GET, "/api/v1/warm-pool", None).await?.json()
}

async fn is_full(endpoint: &Endpoint) -> Result<()> {
    let pool = pool(endpoint).await?;
    ensure!(pool["ready"] == pool["size"] && pool["creating"] == 0, "the pool is not full: {pool}");
    Ok(())
}
