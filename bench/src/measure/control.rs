//! What the control plane takes by itself: its share of a create, an assignment, a start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use emergent_agent_client::AgentKey;
use emergent_orchestrator::{Orchestrator, Pace};
use emergent_provider::fake::FakeProvider;
use emergent_provider::{NamedDemands, SandboxSpec, WorkspaceProvider};
use emergent_store::sqlite::SqliteStore;
use emergent_store::{SecretKey, Vault};
use emergent_types::{IsolationLevel, NetworkMode, ProviderKind, ResourceLimits, WorkspaceId};
use emergent_workspaces::{NewWorkspace, Options, PoolSpec, Service};
use futures::future::try_join_all;
use http::Method;
use serde_json::json;

use super::spread;
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::http::Connection;
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::until_it_works;

const METHOD: &str = "**control**: the share of a cold create is what a create on local takes over HTTP, on a \
    connection that stays open, less what the server says its provider took for it (`attempts[].duration_ms`, \
    whole milliseconds, rounded down); greeting the agent and every durable row are part of the share. The \
    other two are measured inside one process over the fake provider, whose sandboxes are an agent and nothing \
    on the host, with SQLite on the disk that is measured on. An assignment is a create out of a full pool. \
    The reconcile begins with 900 ready workspaces and 100 sandboxes that are nobody's, behind a service that \
    was dropped in the middle of everything; it counts from the opening of the database until every workspace \
    has its owner and every other sandbox is gone.";

const WORKSPACES: &str = "/api/v1/agent/workspaces";
const POOL: u32 = 20;
const LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let share = Row::new("control plane's own share of a cold create", spread(&shares(bench).await?)?)
        .target(Target::Percentiles { p50: Duration::from_millis(5), p99: Duration::from_millis(15) });
    let assignment = Row::new("assignment of a warm sandbox, fake provider", spread(&claims(bench).await?)?)
        .target(Target::P99(Duration::from_millis(20)));
    let reconcile =
        Row::new("reconcile of 1,000 resources, fake provider", spread(&reconciles(bench).await?)?)
            .target(Target::AtMost(Figure::Time(Duration::from_secs(1))));
    Ok(Section::new(METHOD, vec![share, assignment, reconcile]))
}

/// Creates over HTTP, less what the provider took.
async fn shares(bench: &Bench) -> Result<Samples> {
    let rounds = bench.rounds(200, 3);
    with_server(&bench.server("control", 10)?, async |server| {
        let mut connection = Connection::open(server.endpoint()).await?;
        let request = json!({"provider": "local", "network": "isolated", "warm_start": false});
        let mut shares = Samples::default();
        // The first one makes what later ones reuse.
        for round in 0..=rounds {
            let start = Instant::now();
            let created = connection.call(Method::POST, WORKSPACES, Some(&request)).await?.json()?;
            let took = start.elapsed();
            let attempts = created["attempts"].as_array().context("no attempts")?;
            let of_provider = attempts.iter().filter_map(|attempt| attempt["duration_ms"].as_u64()).sum();
            ensure!(of_provider > 0, "the provider took no time: {created}");
            if round > 0 {
                shares.add(took.saturating_sub(Duration::from_millis(of_provider)));
            }
            let id = created["id"].as_str().context("the created workspace has no id")?;
            connection.call(Method::DELETE, &format!("{WORKSPACES}/{id}"), None).await?.json()?;
            bench.settle().await;
        }
        Ok(shares)
    })
    .await
}

/// Creates out of a pool that is full.
async fn claims(bench: &Bench) -> Result<Samples> {
    let options = Options { max_concurrent: 10, pools: vec![PoolSpec::of_defaults(POOL)], ..quiet() };
    let installation = Installation::new(bench, "control-pool", options)?;
    let service = installation.start().await?;
    let handle = service.handle();
    let mut claims = Samples::default();
    for round in 0..=bench.rounds(500, 3) {
        let is_full = async || {
            ensure!(handle.pools().pools[0].ready == POOL, "the pool is not full");
            Ok(())
        };
        until_it_works(LIMIT, is_full).await?;
        let start = Instant::now();
        let row = handle.create(NewWorkspace::default(), true).await?;
        if round > 0 {
            claims.add_since(start);
        }
        handle.destroy(row.id).await?;
        ensure!(handle.pools().hits == round as u64 + 1, "the pool did not serve: {:?}", handle.pools());
    }
    service.shutdown(Duration::ZERO).await;
    Ok(claims)
}

/// Starts on what a service that was dropped has left.
async fn reconciles(bench: &Bench) -> Result<Samples> {
    let (kept, orphans) = (bench.rounds(900, 9), bench.rounds(100, 1));
    let options = Options { max_concurrent: u32::try_from(kept)?, ..quiet() };
    let installation = Installation::new(bench, "control-reconcile", options)?;
    let mut service = installation.start().await?;
    let handle = service.handle();
    let mut ids = Vec::new();
    for _ in 0..kept {
        ids.push(handle.create(NewWorkspace::default(), true).await?.id);
    }
    drop(handle);
    let mut times = Samples::default();
    for _ in 0..bench.rounds(5, 1) {
        for _ in 0..orphans {
            installation.provider.create(&nobodys()).await?;
        }
        service.abandon().await;
        installation.until_nobody_has_the_database().await?;
        let start = Instant::now();
        service = installation.start().await?;
        let is_done = async || {
            let left = installation.provider.list().await?.len();
            ensure!(left == kept, "{left} sandboxes are there");
            Ok(())
        };
        until_it_works(LIMIT, is_done).await?;
        times.add_since(start);
    }
    let handle = service.handle();
    try_join_all(ids.iter().map(|id| handle.destroy(*id))).await?;
    service.shutdown(Duration::ZERO).await;
    Ok(times)
}

/// Without networks, which the fake does not have.
fn quiet() -> Options {
    Options { default_network: NetworkMode::Isolated, ..Options::default() }
}

fn nobodys() -> SandboxSpec {
    let id = WorkspaceId::generate();
    SandboxSpec {
        id,
        limits: ResourceLimits::WORKSPACE_DEFAULT,
        network: NetworkMode::Isolated,
        base_image: None,
        named: NamedDemands::default(),
        volumes: Vec::new(),
        agent_key: AgentKey::derive(b"bench", id),
    }
}

/// A service over the fake that can be started again on the same database.
struct Installation {
    database: PathBuf,
    vault: Vault,
    provider: Arc<FakeProvider>,
    options: Options,
}

impl Installation {
    fn new(bench: &Bench, name: &str, options: Options) -> Result<Self> {
        Ok(Self {
            database: bench.folder(name)?.join("emergent.db"),
            vault: Vault::new(&SecretKey::generate()?),
            provider: Arc::new(FakeProvider::new(ProviderKind::Local, IsolationLevel::Container)),
            options,
        })
    }

    /// Tasks of a service that was dropped end in their own time.
    async fn until_nobody_has_the_database(&self) -> Result<()> {
        let opens = async || {
            drop(SqliteStore::open(&self.database, self.vault.clone()).await?);
            Ok(())
        };
        until_it_works(LIMIT, opens).await
    }

    async fn start(&self) -> Result<Service> {
        let store = SqliteStore::open(&self.database, self.vault.clone()).await?;
        let providers: Vec<Arc<dyn WorkspaceProvider>> = vec![Arc::clone(&self.provider) as _];
        let orchestrator = Orchestrator::start_at(Pace::default(), providers, Vec::new()).await;
        Ok(Service::start(self.options.clone(), Arc::new(store), orchestrator).await?)
    }
}
