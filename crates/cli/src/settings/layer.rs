//! One source of options. What it does not say, a later one may.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use emergent_api::AllowedHost;
use emergent_checkout::Origin;
use emergent_provider_local::Cidr;
use emergent_types::{
    ByteSize, Cpu, DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice, ProviderKind,
};

use super::SettingsError;
use super::database_url::DatabaseUrl;
use super::environment::{self, Environment};
use super::gvisor::GvisorMode;
use super::pools::Pool;

macro_rules! layer {
    ($($(#[$doc:meta])* $field:ident: $type:ty),+ $(,)?) => {
        /// What one source says.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(crate) struct Layer { $($(#[$doc])* pub(crate) $field: Option<$type>),+ }

        impl Layer {
            /// This, and where it says nothing, `later`.
            pub(crate) fn or(self, later: Self) -> Self {
                Self { $($field: self.$field.or(later.$field)),+ }
            }
        }
    };
}

layer! {
    listen: SocketAddr,
    data_dir: PathBuf,
    allow_plain_http: bool,
    allowed_hosts: Vec<AllowedHost>,
    workspaces_enabled: bool,
    max_concurrent: u32,
    default_ttl_days: u32,
    default_provider: ProviderChoice,
    providers: Vec<ProviderKind>,
    gvisor_mode: GvisorMode,
    default_cpu: Cpu,
    default_memory: ByteSize,
    default_disk: ByteSize,
    default_network: NetworkMode,
    egress_allow: Vec<Cidr>,
    deployment_mode: DeploymentMode,
    min_isolation: IsolationLevel,
    rate_limit: u32,
    audit_retention_days: u32,
    stall_seconds: u32,
    bash_max_timeout_ms: u64,
    stream_idle_seconds: u32,
    idle_stop_minutes: u32,
    idle_pause_seconds: u32,
    mcp_keep_running: bool,
    warm_pool_size: u32,
    warm_pool_awake: u32,
    pools: Vec<Pool>,
    max_snapshots: u32,
    alert_percent: u8,
    github_web_url: Origin,
    checkout_allowed_hosts: Vec<Origin>,
    database_url: DatabaseUrl,
}

impl Layer {
    /// What the environment says.
    pub(super) fn from_environment(environment: &Environment) -> Result<Self, SettingsError> {
        Ok(Self {
            listen: environment.value(environment::EMERGENT_LISTEN)?,
            data_dir: environment.text(environment::EMERGENT_DATA_DIR).map(PathBuf::from),
            allow_plain_http: None,
            allowed_hosts: environment
                .text(environment::EMERGENT_ALLOWED_HOSTS)
                .map(|text| hosts(environment::EMERGENT_ALLOWED_HOSTS, text.split(',')))
                .transpose()?,
            workspaces_enabled: environment
                .value::<Switch>(environment::ENABLE_AGENT_WORKSPACES)?
                .map(Switch::is_on),
            max_concurrent: environment.value(environment::WORKSPACE_MAX_CONCURRENT)?,
            default_ttl_days: environment.value(environment::WORKSPACE_DEFAULT_TTL_DAYS)?,
            default_provider: environment.value(environment::WORKSPACE_DEFAULT_PROVIDER)?,
            providers: environment
                .text(environment::WORKSPACE_PROVIDERS)
                .map(|text| providers(environment::WORKSPACE_PROVIDERS, text.split(',')))
                .transpose()?,
            gvisor_mode: environment.value(environment::WORKSPACE_GVISOR_MODE)?,
            default_cpu: environment.value(environment::WORKSPACE_DEFAULT_CPU)?,
            default_memory: environment.value(environment::WORKSPACE_DEFAULT_MEMORY)?,
            default_disk: environment.value(environment::WORKSPACE_DEFAULT_DISK)?,
            default_network: environment.value(environment::WORKSPACE_DEFAULT_NETWORK)?,
            egress_allow: environment
                .text(environment::WORKSPACE_EGRESS_ALLOW)
                .map(|text| ranges(environment::WORKSPACE_EGRESS_ALLOW, text.split(',')))
                .transpose()?,
            deployment_mode: environment.value(environment::DEPLOYMENT_MODE)?,
            min_isolation: environment.value(environment::EMERGENT_MIN_ISOLATION)?,
            rate_limit: environment.value(environment::EMERGENT_RATE_LIMIT)?,
            audit_retention_days: environment.value(environment::AUDIT_RETENTION_DAYS)?,
            stall_seconds: environment.value(environment::EMERGENT_STALL_SECONDS)?,
            bash_max_timeout_ms: environment.value(environment::WORKSPACE_BASH_MAX_TIMEOUT_MS)?,
            stream_idle_seconds: environment.value(environment::WORKSPACE_STREAM_IDLE_SECONDS)?,
            idle_stop_minutes: environment.value(environment::WORKSPACE_IDLE_STOP_MINUTES)?,
            idle_pause_seconds: environment.value(environment::WORKSPACE_IDLE_PAUSE_SECONDS)?,
            mcp_keep_running: environment.value::<Switch>(environment::MCP_KEEP_RUNNING)?.map(Switch::is_on),
            warm_pool_size: environment.value(environment::WORKSPACE_WARM_POOL_SIZE)?,
            warm_pool_awake: environment.value(environment::WORKSPACE_WARM_POOL_AWAKE)?,
            // A list of tables is for the file alone.
            pools: None,
            max_snapshots: environment.value(environment::WORKSPACE_MAX_SNAPSHOTS)?,
            alert_percent: environment.value(environment::WORKSPACE_ALERT_PERCENT)?,
            github_web_url: environment.value(environment::GITHUB_WEB_URL)?,
            checkout_allowed_hosts: environment
                .text(environment::CHECKOUT_ALLOWED_HOSTS)
                .map(|text| origins(environment::CHECKOUT_ALLOWED_HOSTS, text.split(',')))
                .transpose()?,
            database_url: environment
                .text(environment::DATABASE_URL)
                .map(|url| DatabaseUrl::from(url.to_owned())),
        })
    }
}

/// Hosts, each of which must make sense.
pub(super) fn hosts<'a>(
    origin: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<AllowedHost>, SettingsError> {
    names
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| name.parse().map_err(|error| SettingsError::new(origin, error)))
        .collect()
}

/// Git hosts, each of which must make sense.
pub(super) fn origins<'a>(
    origin: &str,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<Origin>, SettingsError> {
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().map_err(|error| SettingsError::new(origin, format!("{text:?}: {error}"))))
        .collect()
}

/// Names of providers that this program has.
pub(super) fn providers<'a>(
    origin: &str,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<ProviderKind>, SettingsError> {
    const HERE: [ProviderKind; 3] = [ProviderKind::Gvisor, ProviderKind::Docker, ProviderKind::Local];
    let refuse =
        |text: &str| SettingsError::new(origin, format!("{text:?} is none of gvisor, docker, local"));
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().ok().filter(|kind| HERE.contains(kind)).ok_or_else(|| refuse(text)))
        .collect()
}

/// Ranges of addresses, each of which must make sense.
pub(super) fn ranges<'a>(
    origin: &str,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<Cidr>, SettingsError> {
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().map_err(|error| SettingsError::new(origin, format!("{text:?} is {error}"))))
        .collect()
}

/// Yes or no, in the ways people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

impl Switch {
    fn is_on(self) -> bool {
        self == Self::On
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(Self::On),
            "false" | "0" | "no" | "off" => Ok(Self::Off),
            _ => Err(format!("{text:?} is neither true nor false")),
        }
    }
}
