//! `emergent.toml`.
//!
//! ```toml
//! listen = "127.0.0.1:8585"
//! data_dir = "/var/lib/emergent"
//! allow_plain_http = false
//! allowed_hosts = ["emergent.example"]
//! min_isolation = "container"
//! deployment_mode = "self-hosted"
//! rate_limit = 1000
//! audit_retention_days = 90
//! stall_seconds = 60
//! database_url = "postgres://emergent@localhost/emergent"
//!
//! [workspaces]
//! enabled = true
//! max_concurrent = 10
//! default_ttl_days = 30
//! default_provider = "auto"
//! gvisor_mode = "auto"
//! default_cpu = 2
//! default_memory = "4G"
//! default_disk = "10G"
//! default_network = "internet"
//! egress_allow = ["10.1.0.0/16"]
//! bash_max_timeout_ms = 600000
//! stream_idle_seconds = 300
//! idle_stop_minutes = 0
//! idle_pause_seconds = 0
//! warm_pool_size = 2
//! warm_pool_awake = 1
//! max_snapshots = 100
//! alert_percent = 80
//!
//! [mcp]
//! keep_running = false
//!
//! [checkout]
//! github_web_url = "https://github.com"
//! allowed_hosts = ["https://git.example"]
//!
//! [[workspaces.pools]]
//! name = "small"
//! size = 4
//! cpu = 1
//! memory = "512M"
//! disk = "1G"
//! base_image = "debian:12"
//! provider = "gvisor"
//! network = "isolated"
//! min_isolation = "gvisor"
//! ```

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use emergent_types::{ByteSize, Cpu, DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice};
use serde::Deserialize;

use super::database_url::DatabaseUrl;
use super::environment::{self, Environment};
use super::gvisor::GvisorMode;
use super::pools::{self, PoolTable};
use super::{Layer, SettingsError, layer};

/// Where a file is looked for that nobody named.
const PLACES: [&str; 2] = ["emergent.toml", "/etc/emergent/emergent.toml"];

// Not to be printed: the address of a database may hold a password.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<SocketAddr>,
    data_dir: Option<PathBuf>,
    allow_plain_http: Option<bool>,
    allowed_hosts: Option<Vec<String>>,
    min_isolation: Option<IsolationLevel>,
    deployment_mode: Option<DeploymentMode>,
    rate_limit: Option<u32>,
    audit_retention_days: Option<u32>,
    stall_seconds: Option<u32>,
    database_url: Option<String>,
    #[serde(default)]
    workspaces: Workspaces,
    #[serde(default)]
    mcp: Mcp,
    #[serde(default)]
    checkout: Checkout,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checkout {
    github_web_url: Option<String>,
    allowed_hosts: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mcp {
    keep_running: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workspaces {
    enabled: Option<bool>,
    max_concurrent: Option<u32>,
    default_ttl_days: Option<u32>,
    default_provider: Option<ProviderChoice>,
    providers: Option<Vec<String>>,
    gvisor_mode: Option<GvisorMode>,
    default_cpu: Option<Cpu>,
    default_memory: Option<ByteSize>,
    default_disk: Option<ByteSize>,
    default_network: Option<NetworkMode>,
    egress_allow: Option<Vec<String>>,
    bash_max_timeout_ms: Option<u64>,
    stream_idle_seconds: Option<u32>,
    idle_stop_minutes: Option<u32>,
    idle_pause_seconds: Option<u32>,
    warm_pool_size: Option<u32>,
    warm_pool_awake: Option<u32>,
    pools: Option<Vec<PoolTable>>,
    max_snapshots: Option<u32>,
    alert_percent: Option<u8>,
}

/// What the file says. One that was named must be there.
pub(super) fn read(named: Option<PathBuf>, environment: &Environment) -> Result<Layer, SettingsError> {
    let named = named.or_else(|| environment.text(environment::EMERGENT_CONFIG).map(PathBuf::from));
    let must_exist = named.is_some();
    let places = named.map_or_else(|| PLACES.map(PathBuf::from).to_vec(), |path| vec![path]);
    for path in places {
        match std::fs::read_to_string(&path) {
            Ok(text) => return parse(&path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => {}
            Err(error) => return Err(SettingsError::new(path.display().to_string(), error)),
        }
    }
    Ok(Layer::default())
}

/// The parser's message has the line and the key.
pub(super) fn parse(path: &Path, text: &str) -> Result<Layer, SettingsError> {
    let origin = path.display().to_string();
    let file: File =
        toml::from_str(text).map_err(|error| SettingsError::new(&origin, error.to_string().trim_end()))?;
    let hosts = file
        .allowed_hosts
        .map(|names| layer::hosts(&format!("{origin}: allowed_hosts"), names.iter().map(String::as_str)));
    let ranges = file.workspaces.egress_allow.map(|texts| {
        layer::ranges(&format!("{origin}: workspaces.egress_allow"), texts.iter().map(String::as_str))
    });
    let providers = file.workspaces.providers.map(|names| {
        layer::providers(&format!("{origin}: workspaces.providers"), names.iter().map(String::as_str))
    });
    let (github, hosts_of_git) = (file.checkout.github_web_url, file.checkout.allowed_hosts);
    let github = github.map(|text| {
        text.parse().map_err(|error| SettingsError::new(format!("{origin}: checkout.github_web_url"), error))
    });
    let hosts_of_git = hosts_of_git.map(|texts| {
        layer::origins(&format!("{origin}: checkout.allowed_hosts"), texts.iter().map(String::as_str))
    });
    let pools = file.workspaces.pools.map(|tables| pools::checked(&origin, tables));
    Ok(Layer {
        listen: file.listen,
        data_dir: file.data_dir,
        allow_plain_http: file.allow_plain_http,
        allowed_hosts: hosts.transpose()?,
        workspaces_enabled: file.workspaces.enabled,
        max_concurrent: file.workspaces.max_concurrent,
        default_ttl_days: file.workspaces.default_ttl_days,
        default_provider: file.workspaces.default_provider,
        providers: providers.transpose()?,
        gvisor_mode: file.workspaces.gvisor_mode,
        default_cpu: file.workspaces.default_cpu,
        default_memory: file.workspaces.default_memory,
        default_disk: file.workspaces.default_disk,
        default_network: file.workspaces.default_network,
        egress_allow: ranges.transpose()?,
        deployment_mode: file.deployment_mode,
        min_isolation: file.min_isolation,
        rate_limit: file.rate_limit,
        audit_retention_days: file.audit_retention_days,
        stall_seconds: file.stall_seconds,
        bash_max_timeout_ms: file.workspaces.bash_max_timeout_ms,
        stream_idle_seconds: file.workspaces.stream_idle_seconds,
        idle_stop_minutes: file.workspaces.idle_stop_minutes,
        idle_pause_seconds: file.workspaces.idle_pause_seconds,
        mcp_keep_running: file.mcp.keep_running,
        warm_pool_size: file.workspaces.warm_pool_size,
        warm_pool_awake: file.workspaces.warm_pool_awake,
        pools: pools.transpose()?,
        max_snapshots: file.workspaces.max_snapshots,
        alert_percent: file.workspaces.alert_percent,
        github_web_url: github.transpose()?,
        checkout_allowed_hosts: hosts_of_git.transpose()?,
        database_url: file.database_url.map(DatabaseUrl::from),
    })
}
