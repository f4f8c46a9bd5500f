//! From layers of options to one structure that is whole and valid.
//!
//! ```text
//!   flags  ─┐
//!   environment ─┼─► combine (the first that says something wins) ─► defaults ─► check ─► Settings
//!   emergent.toml ─┘
//! ```
//!
//! Each layer is read into the same [`Layer`], where everything is optional; what cannot be
//! read is an error that names the flag, variable or key. The rest of the program never sees
//! anything but [`Settings`].

pub(crate) mod data_dir;
mod database_url;
pub(crate) mod environment;
mod file;
pub(crate) mod gvisor;
mod layer;
pub(crate) mod pools;
mod providers;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use emergent_api::AllowedHost;
use emergent_checkout::Hosts;
use emergent_provider_local::Cidr;
use emergent_types::{DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice, ResourceLimits};

use self::database_url::DatabaseUrl;
use self::environment::Environment;
use self::gvisor::Gvisor;
pub(crate) use self::layer::Layer;
use self::pools::Pool;
use self::providers::Providers;
use crate::arguments::CommonArguments;

/// Where the server listens unless told otherwise.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8585);

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// The longest default time to live, in days: ten years.
const MAX_TTL_DAYS: u32 = 3650;

/// The longest time the audit log is kept, in days: ten years.
const MAX_RETENTION_DAYS: u32 = 3650;

/// How many workspaces may run at once where nobody says.
pub(crate) const DEFAULT_MAX_CONCURRENT: u32 = 10;

/// The highest limit of concurrent workspaces.
const MAX_CONCURRENT: u32 = 10_000;

/// How many sandboxes are made ahead of time where nobody says.
const DEFAULT_WARM_POOL_SIZE: u32 = 2;

/// The largest pool.
const MAX_WARM_POOL_SIZE: u32 = 100;

/// The longest time a client is waited for that takes nothing, in seconds: an hour.
const MAX_STALL_SECONDS: u32 = 3600;

/// The longest that commands can be allowed to run, in milliseconds: a day, which is as long as
/// agents allow.
const MAX_COMMAND_MS: u64 = 24 * 60 * 60 * 1000;

/// Something in the configuration cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {reason}")]
pub(crate) struct SettingsError {
    /// The flag, variable, or file and key.
    origin: String,
    reason: String,
}

impl SettingsError {
    pub(crate) fn new(origin: impl Into<String>, reason: impl ToString) -> Self {
        Self { origin: origin.into(), reason: reason.to_string() }
    }
}

/// Everything an administrator decides, whole and valid.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) allowed_hosts: Vec<AllowedHost>,
    pub(crate) workspaces_enabled: bool,
    pub(crate) max_concurrent: u32,
    pub(crate) default_ttl: Duration,
    pub(crate) default_provider: ProviderChoice,
    pub(crate) providers: Providers,
    pub(crate) gvisor: Gvisor,
    pub(crate) default_limits: ResourceLimits,
    pub(crate) default_network: NetworkMode,
    pub(crate) egress_allow: Vec<Cidr>,
    pub(crate) deployment_mode: DeploymentMode,
    pub(crate) min_isolation: IsolationLevel,
    /// Requests per second of a token; `None` is without a limit.
    pub(crate) rate_limit: Option<NonZeroU32>,
    pub(crate) audit_retention: Duration,
    pub(crate) stall_limit: Duration,
    pub(crate) max_command_time: Duration,
    /// `None` is never.
    pub(crate) stream_idle: Option<Duration>,
    pub(crate) idle_stop: Option<Duration>,
    pub(crate) idle_pause: Option<Duration>,
    /// Whether sandboxes of MCP servers go on when the server ends.
    pub(crate) mcp_keep_running: bool,
    /// Of the default pool.
    pub(crate) warm_pool_size: u32,
    /// Of every pool.
    pub(crate) warm_pool_awake: u32,
    /// Those beside it.
    pub(crate) pools: Vec<Pool>,
    pub(crate) max_snapshots: u32,
    /// From how much on there is an alert.
    pub(crate) alert_percent: u8,
    /// Which git hosts may be spoken to.
    pub(crate) git_hosts: Hosts,
    /// `None` is SQLite in the data folder.
    pub(crate) database_url: Option<DatabaseUrl>,
}

impl Settings {
    /// Reads environment and file, and combines them with what the flags say.
    pub(crate) fn load(common: &CommonArguments, flags: Layer) -> Result<Self, SettingsError> {
        let environment = Environment::of_process();
        let flags = Layer { data_dir: common.data_dir.clone(), ..flags };
        let file = file::read(common.config.clone(), &environment)?;
        Self::from_layer(flags.or(Layer::from_environment(&environment)?).or(file), &environment)
    }

    /// What a file alone makes of them.
    #[cfg(test)]
    pub(crate) fn of_file(text: &str) -> Self {
        let environment = Environment::of(&[(environment::HOME, "/home/a")]);
        let layer = file::parse(std::path::Path::new("emergent.toml"), text).unwrap();
        Self::from_layer(layer, &environment).unwrap()
    }

    /// Fills in the defaults and checks the whole.
    fn from_layer(layer: Layer, environment: &Environment) -> Result<Self, SettingsError> {
        let listen = layer.listen.unwrap_or(DEFAULT_LISTEN);
        if !listen.ip().is_loopback() && !layer.allow_plain_http.unwrap_or(false) {
            return Err(SettingsError::new(
                format!("listen {listen}"),
                "others could read the traffic, tokens included, because there is no TLS; listen on 127.0.0.1 \
                 and put a TLS proxy in front, or accept it with --allow-plain-http",
            ));
        }
        let max_concurrent = layer.max_concurrent.unwrap_or(DEFAULT_MAX_CONCURRENT);
        if !(1..=MAX_CONCURRENT).contains(&max_concurrent) {
            return Err(SettingsError::new(
                environment::WORKSPACE_MAX_CONCURRENT,
                format!("must be between 1 and {MAX_CONCURRENT}, not {max_concurrent}"),
            ));
        }
        let ttl_days = layer.default_ttl_days.unwrap_or(30);
        if !(1..=MAX_TTL_DAYS).contains(&ttl_days) {
            return Err(SettingsError::new(
                environment::WORKSPACE_DEFAULT_TTL_DAYS,
                format!("must be between 1 and {MAX_TTL_DAYS}, not {ttl_days}"),
            ));
        }
        let retention_days = layer.audit_retention_days.unwrap_or(90);
        if !(1..=MAX_RETENTION_DAYS).contains(&retention_days) {
            return Err(SettingsError::new(
                environment::AUDIT_RETENTION_DAYS,
                format!("must be between 1 and {MAX_RETENTION_DAYS}, not {retention_days}"),
            ));
        }
        let stall_seconds = layer.stall_seconds.unwrap_or(60);
        if !(1..=MAX_STALL_SECONDS).contains(&stall_seconds) {
            return Err(SettingsError::new(
                environment::EMERGENT_STALL_SECONDS,
                format!("must be between 1 and {MAX_STALL_SECONDS}, not {stall_seconds}"),
            ));
        }
        let max_command_ms = layer.bash_max_timeout_ms.unwrap_or(600_000);
        if !(1..=MAX_COMMAND_MS).contains(&max_command_ms) {
            return Err(SettingsError::new(
                environment::WORKSPACE_BASH_MAX_TIMEOUT_MS,
                format!("must be between 1 and {MAX_COMMAND_MS}, not {max_command_ms}"),
            ));
        }
        let warm_pool_size = layer.warm_pool_size.unwrap_or(DEFAULT_WARM_POOL_SIZE);
        if warm_pool_size > MAX_WARM_POOL_SIZE {
            return Err(SettingsError::new(
                environment::WORKSPACE_WARM_POOL_SIZE,
                format!("must be between 0 and {MAX_WARM_POOL_SIZE}, not {warm_pool_size}"),
            ));
        }
        let alert_percent = layer.alert_percent.unwrap_or(80);
        if !(1..=100).contains(&alert_percent) {
            return Err(SettingsError::new(
                environment::WORKSPACE_ALERT_PERCENT,
                format!("must be between 1 and 100, not {alert_percent}"),
            ));
        }
        let limits = ResourceLimits::WORKSPACE_DEFAULT;
        let data_dir = match layer.data_dir {
            Some(data_dir) => data_dir,
            None => data_dir::default(environment)?,
        };
        let gvisor = Gvisor::of(layer.gvisor_mode.unwrap_or_default(), &data_dir, environment);
        let providers = layer
            .providers
            .map_or_else(|| Providers::found(environment, &gvisor, &data_dir), Providers::named);
        let pools = layer.pools.unwrap_or_default();
        pools::check_providers(&pools, &providers)?;
        Ok(Self {
            listen,
            data_dir,
            allowed_hosts: layer.allowed_hosts.unwrap_or_default(),
            workspaces_enabled: layer.workspaces_enabled.unwrap_or(true),
            max_concurrent,
            default_ttl: Duration::from_secs(u64::from(ttl_days) * SECONDS_PER_DAY),
            default_provider: layer.default_provider.unwrap_or_default(),
            providers,
            gvisor,
            default_limits: ResourceLimits {
                cpu: layer.default_cpu.unwrap_or(limits.cpu),
                memory: layer.default_memory.unwrap_or(limits.memory),
                disk: layer.default_disk.unwrap_or(limits.disk),
            },
            default_network: layer.default_network.unwrap_or(NetworkMode::Internet),
            egress_allow: layer.egress_allow.unwrap_or_default(),
            deployment_mode: layer.deployment_mode.unwrap_or(DeploymentMode::SelfHosted),
            min_isolation: layer.min_isolation.unwrap_or(IsolationLevel::Container),
            rate_limit: NonZeroU32::new(layer.rate_limit.unwrap_or(1000)),
            audit_retention: Duration::from_secs(u64::from(retention_days) * SECONDS_PER_DAY),
            stall_limit: Duration::from_secs(stall_seconds.into()),
            max_command_time: Duration::from_millis(max_command_ms),
            idle_stop: NonZeroU32::new(layer.idle_stop_minutes.unwrap_or(0))
                .map(|minutes| Duration::from_secs(60 * u64::from(minutes.get()))),
            idle_pause: NonZeroU32::new(layer.idle_pause_seconds.unwrap_or(0))
                .map(|seconds| Duration::from_secs(seconds.get().into())),
            stream_idle: NonZeroU32::new(layer.stream_idle_seconds.unwrap_or(300))
                .map(|seconds| Duration::from_secs(seconds.get().into())),
            mcp_keep_running: layer.mcp_keep_running.unwrap_or(false),
            warm_pool_size,
            warm_pool_awake: layer.warm_pool_awake.unwrap_or(1),
            pools,
            max_snapshots: layer.max_snapshots.unwrap_or(100),
            alert_percent,
            git_hosts: Hosts::new(layer.github_web_url, layer.checkout_allowed_hosts.unwrap_or_default()),
            database_url: layer.database_url,
        })
    }
}

#[cfg(test)]
mod tests;
