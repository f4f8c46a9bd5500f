//! How long each operation takes in a database with 10,000 workspaces, and how much memory
//! the store needs.
//!
//! ```text
//! cargo run --release -p emergent-store --example latency
//! ```

use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use emergent_store::sqlite::SqliteStore;
use emergent_store::{
    Environment, SecretKey, Store, Touch, Vault, WorkspaceFilter, WorkspaceRow, WorkspaceUpdate, now,
};
use emergent_types::{
    ContainerType, DeploymentMode, IsolationLevel, Lifecycle, NetworkMode, ProviderChoice, ProviderKind,
    ResourceLimits, WorkspaceId, WorkspaceStatus,
};

const ROWS: usize = 10_000;
const SAMPLES: usize = 500;
const PAGE: NonZeroU32 = NonZeroU32::new(50).expect("not zero");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("emergent.db");
    let vault = Vault::new(&SecretKey::generate()?);
    let store = SqliteStore::open(&path, vault.clone()).await?;
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    report_memory("empty")?;

    let mut inserts = Vec::new();
    for row in &rows {
        let started = Instant::now();
        store.insert_workspace(row, u32::MAX, None).await?;
        inserts.push(started.elapsed());
    }
    report("insert_workspace", inserts);

    let some = |sample: usize| &rows[sample * 7919 % ROWS];
    let touch = |row: &WorkspaceRow| Touch { id: row.id, last_used_at: now(), expires_at: Some(now()) };
    let all = WorkspaceFilter::default();
    let rare = WorkspaceFilter { provider: Some(ProviderKind::E2b), ..all };
    let failed = WorkspaceFilter { status: Some(WorkspaceStatus::Failed), ..all };

    macro_rules! measure {
        ($name:literal, |$sample:ident| $call:expr) => {{
            let mut times = Vec::new();
            for $sample in 0..SAMPLES {
                let started = Instant::now();
                $call.await?;
                times.push(started.elapsed());
            }
            report($name, times);
        }};
    }
    measure!("get_workspace", |sample| store.get_workspace(some(sample).id));
    measure!("update_workspace", |sample| store
        .update_workspace(some(sample).id, WorkspaceUpdate::default()));
    measure!("touch_workspaces, 1", |sample| store.touch_workspaces(&[touch(some(sample))]));
    let touches: Vec<_> = rows.iter().take(100).map(touch).collect();
    measure!("touch_workspaces, 100", |_sample| store.touch_workspaces(&touches));
    measure!("list_workspaces, 50", |_sample| store.list_workspaces(all, None, PAGE));
    measure!("list_workspaces, 50 failed", |_sample| store.list_workspaces(failed, None, PAGE));
    measure!("list_workspaces, no match", |_sample| store.list_workspaces(rare, None, PAGE));
    measure!("count_active", |_sample| store.count_active());
    measure!("health", |_sample| store.health());

    let started = Instant::now();
    let everything = store.workspaces_for_reconcile().await?.len();
    println!("{:<28} {:>9.3} ms", format!("reconcile, {everything}"), millis(started.elapsed()));
    report_memory("after all that")?;
    store.close().await;
    drop(store);
    let started = Instant::now();
    SqliteStore::open(&path, vault).await?;
    println!("{:<28} {:>9.3} ms", "open", millis(started.elapsed()));
    println!("{:<28} {:>9} KiB", "database", std::fs::metadata(&path)?.len() / 1024);
    Ok(())
}

/// Mostly stopped, some failed, few active, as in a long-lived installation.
fn row(number: usize) -> WorkspaceRow {
    let id = WorkspaceId::generate();
    let status = match number % 100 {
        0 => WorkspaceStatus::Ready,
        1..5 => WorkspaceStatus::Failed,
        _ => WorkspaceStatus::Stopped,
    };
    WorkspaceRow {
        id,
        agent_session_id: None,
        container_type: ContainerType::AgentWorkspace,
        provider: ProviderKind::Local,
        provider_workspace_id: id.to_string(),
        repository_url: Some("https://example.org/repository.git".to_owned()),
        branch: Some("main".to_owned()),
        deployment_mode: DeploymentMode::SelfHosted,
        lifecycle: Lifecycle::Ephemeral,
        status,
        created_at: now(),
        last_used_at: now(),
        expires_at: Some(now() + Duration::from_secs(86_400)),
        resource_limits: ResourceLimits::WORKSPACE_DEFAULT,
        snapshot_id: None,
        mcp_config: None,
        metadata: serde_json::Map::new(),
        requested_provider: ProviderChoice::Auto,
        min_isolation: IsolationLevel::Container,
        network: NetworkMode::Isolated,
        base_image: None,
        ttl_seconds: Some(86_400),
        environment: Environment::from_iter([("TOKEN".to_owned(), "secret".to_owned())]),
        owner_id: None,
        isolation: Some(IsolationLevel::Container),
        persistence: None,
        disk_enforcement: None,
        attempts: vec![],
        warnings: vec!["the weakest isolation".to_owned()],
        error: None,
        resume_attempts: 0,
        acknowledged: false,
        named_demands: None,
        warm_pool: None,
        repositories: Vec::new(),
    }
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{name:<28} {:>9.3} ms p50 {:>9.3} ms p99", millis(p50), millis(p99));
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn report_memory(when: &str) -> Result<(), Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("unknown");
    println!("{:<28} {}", format!("memory, {when}"), resident.trim());
    Ok(())
}
