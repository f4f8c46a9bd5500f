//! `emergent serve`: puts the parts together and runs them until a signal.
//!
//! ```text
//!   settings ─► data folder ─► key ─► store (locks the folder) ─► admin token ─► address
//!       ─► providers ─► workspaces (reconcile) ─► "listening on http://…" ─► requests
//!
//!   SIGTERM ─► no new connections ─► running calls get 10 s ─► workspaces ─► store ─► exit 0
//! ```
//!
//! Standard output has exactly one line, so that whoever started this knows when it is ready;
//! logs go to standard error. Sandboxes outlive the server: the next one adopts them.

mod admin_token;
mod encryption_key;
mod host_capacity;
mod kvm;
mod logging;
mod pools;
pub(crate) mod providers;
mod signals;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use emergent_orchestrator::Orchestrator;
use emergent_store::sqlite::SqliteStore;
use emergent_store::{OpenError, Store, Vault};
use emergent_types::ProviderChoice;
use emergent_workspaces::{Failpoints, HostServices, Place};

use crate::arguments::{CommonArguments, ServeArguments};
use crate::exit::Failure;
use crate::private_file;
use crate::settings::environment::Environment;
use crate::settings::{Layer, Settings, data_dir};

/// How long running calls may go on after the signal to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// More threads than this only cost memory: the work is waiting for sandboxes.
const MAX_WORKER_THREADS: usize = 4;

/// How long a thread for blocking work is kept without any.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Runs the server until it is told to end.
pub(crate) fn run(common: &CommonArguments, arguments: &ServeArguments) -> Result<ExitCode, Failure> {
    let flags = Layer {
        listen: arguments.listen,
        allow_plain_http: arguments.allow_plain_http.then_some(true),
        ..Layer::default()
    };
    let environment = Environment::of_process();
    let settings = Settings::load(common, flags).map_err(anyhow::Error::from)?;
    logging::start(&environment)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_WORKER_THREADS))
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(settings, &environment));
    // Whatever still blocks must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(settings: Settings, environment: &Environment) -> Result<()> {
    let signals = signals::Signals::listen()?;
    private_file::make_folder(&settings.data_dir)?;
    let folder = settings.data_dir.canonicalize().context("cannot resolve the data folder")?;
    let store = open_store(&folder, &settings, environment).await?;
    admin_token::ensure(&data_dir::admin_token(&folder), store.as_ref()).await?;
    let api = emergent_api::Service::bind(emergent_api::Options {
        listen: settings.listen,
        allowed_hosts: settings.allowed_hosts.clone(),
        rate_limit: settings.rate_limit,
        audit_retention: settings.audit_retention,
        stall_limit: settings.stall_limit,
        max_command_time: settings.max_command_time,
    })
    .await?;
    let address = api.local_addr();

    let checkout = emergent_checkout::Service::start(
        emergent_checkout::Options {
            hosts: settings.git_hosts.clone(),
            limits: emergent_checkout::Limits::default(),
        },
        Arc::clone(&store),
    );
    let workspaces = match settings.workspaces_enabled {
        true => {
            let parts = (Arc::clone(&store), &checkout);
            Some(start_workspaces(&settings, environment, &folder, parts).await?)
        }
        false => {
            tracing::warn!("workspaces are switched off; what exists is left as it is");
            None
        }
    };
    let handle = workspaces.as_ref().map(emergent_workspaces::Service::handle);
    let mcp_servers = match &handle {
        Some(workspaces) => Some(host_mcp_servers(&settings, workspaces.clone()).await?),
        None => None,
    };
    let mcp_handle = mcp_servers.as_ref().map(emergent_mcp_hosting::Service::handle);

    let listen_file = data_dir::listen(&folder);
    private_file::replace(&listen_file, &format!("http://{}", reachable(address)))?;
    announce(address)?;
    tracing::info!(%address, data_dir = %folder.display(), "listening on http://{address}");
    let checkout = handle.is_some().then(|| checkout.handle());
    api.run(Arc::clone(&store), handle, mcp_handle, checkout, signals.wait(), SHUTDOWN_GRACE).await;

    tracing::info!("shutting down; workspaces stay up");
    if let Some(mcp_servers) = mcp_servers {
        mcp_servers.shutdown().await;
    }
    match workspaces {
        // Every call has ended or been dropped by now.
        Some(workspaces) => workspaces.shutdown(Duration::ZERO).await,
        None => store.close().await,
    }
    // Somebody else may listen there next.
    if let Err(error) = std::fs::remove_file(&listen_file) {
        tracing::warn!(%error, "cannot remove {}: {error}", listen_file.display());
    }
    Ok(())
}

async fn open_store(folder: &Path, settings: &Settings, environment: &Environment) -> Result<Arc<dyn Store>> {
    let key = encryption_key::load(&data_dir::secret_key(folder), environment)?;
    let vault = Vault::new(&key);
    let opened = match &settings.database_url {
        Some(url) => emergent_store::open(url.expose(), vault).await,
        None => SqliteStore::open(&data_dir::database(folder), vault).await.map(|store| Arc::new(store) as _),
    };
    match opened {
        Ok(store) => Ok(store),
        Err(OpenError::AlreadyInUse { database, holder }) if settings.database_url.is_some() => {
            let by = holder.map(|holder| format!(" ({holder})")).unwrap_or_default();
            anyhow::bail!("another server{by} already uses the database {database}")
        }
        Err(OpenError::AlreadyInUse { holder, .. }) => {
            let by = holder.map(|holder| format!(" ({holder})")).unwrap_or_default();
            anyhow::bail!("another server{by} already uses the data folder {}", folder.display())
        }
        Err(error) => Err(error).context("cannot open the database"),
    }
}

async fn start_workspaces(
    settings: &Settings,
    environment: &Environment,
    folder: &Path,
    (store, checkout): (Arc<dyn Store>, &emergent_checkout::Service),
) -> Result<emergent_workspaces::Service> {
    kvm::look();
    let providers = providers::all(folder, store.installation().id, settings, environment);
    let orchestrator = Orchestrator::start_without(providers, settings.providers.absent.clone()).await;
    let options = emergent_workspaces::Options {
        max_concurrent: settings.max_concurrent,
        default_limits: settings.default_limits,
        default_network: settings.default_network,
        default_ttl: settings.default_ttl,
        preferred_provider: match settings.default_provider {
            ProviderChoice::Auto => None,
            ProviderChoice::Explicit(kind) => Some(kind),
        },
        deployment_mode: settings.deployment_mode,
        min_isolation: settings.min_isolation,
        stream_idle: settings.stream_idle,
        idle_stop: settings.idle_stop,
        idle_pause: settings.idle_pause,
        pool_awake: settings.warm_pool_awake,
        pools: pools::specs(settings),
        max_snapshots: settings.max_snapshots,
        alert_percent: settings.alert_percent,
        failpoints: failpoints()?,
        host: host_capacity::of_this_host(folder),
        services: HostServices::new(vec![Arc::new(emergent_api::WorkspaceInfo), checkout.broker()]),
        checkout: Some(checkout.checkout()),
        ..emergent_workspaces::Options::default()
    };
    emergent_workspaces::Service::start(options, store, orchestrator)
        .await
        .context("cannot start the workspaces")
}

async fn host_mcp_servers(
    settings: &Settings,
    workspaces: emergent_workspaces::Handle,
) -> Result<emergent_mcp_hosting::Service> {
    let options = emergent_mcp_hosting::Options {
        keep_running: settings.mcp_keep_running,
        ..emergent_mcp_hosting::Options::default()
    };
    emergent_mcp_hosting::Service::start(options, workspaces).await.context("cannot host the MCP servers")
}

/// Where a test wants this server to be killed. Programs that people run do not ask.
fn failpoints() -> Result<Failpoints> {
    match std::env::var("EMERGENT_FAILPOINT") {
        Ok(name) if cfg!(debug_assertions) => {
            let place = Place::named(&name).with_context(|| format!("no failpoint is called {name:?}"))?;
            Ok(Failpoints::killing_at(place))
        }
        _ => Ok(Failpoints::default()),
    }
}

/// The one line on standard output.
fn announce(address: SocketAddr) -> Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "listening on http://{address}")
        .and_then(|()| stdout.flush())
        .context("cannot say where it listens")
}

/// An address for clients on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
