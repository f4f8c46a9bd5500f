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
mod layer;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use emergent_api::AllowedHost;
use emergent_provider_gvisor::EngineAddress;
use emergent_provider_local::Cidr;
use emergent_types::{
    DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice, ProviderKind, ResourceLimits,
};

use self::database_url::DatabaseUrl;
use self::environment::Environment;
pub(crate) use self::layer::Layer;
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
    /// In no order: automatic choice has one of its own.
    pub(crate) providers: Vec<ProviderKind>,
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
        let limits = ResourceLimits::WORKSPACE_DEFAULT;
        Ok(Self {
            listen,
            data_dir: match layer.data_dir {
                Some(data_dir) => data_dir,
                None => data_dir::default(environment)?,
            },
            allowed_hosts: layer.allowed_hosts.unwrap_or_default(),
            workspaces_enabled: layer.workspaces_enabled.unwrap_or(true),
            max_concurrent,
            default_ttl: Duration::from_secs(u64::from(ttl_days) * SECONDS_PER_DAY),
            default_provider: layer.default_provider.unwrap_or_default(),
            providers: layer.providers.unwrap_or_else(|| found_providers(environment)),
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
            database_url: layer.database_url,
        })
    }
}

/// The providers that are used where nobody says which: Docker's only where there may be one.
fn found_providers(environment: &Environment) -> Vec<ProviderKind> {
    let engine = environment.text(environment::DOCKER_HOST).map(EngineAddress::new).unwrap_or_default();
    let mut found = vec![ProviderKind::Local];
    if engine.may_be_there() {
        found.extend([ProviderKind::Gvisor, ProviderKind::Docker]);
    }
    found
}

#[cfg(test)]
mod tests;
