//! Every environment variable this program reads, with what it means.

use std::collections::HashMap;
use std::str::FromStr;

use super::SettingsError;

/// The configuration file.
pub(crate) const EMERGENT_CONFIG: &str = "EMERGENT_CONFIG";
/// The folder that holds everything.
pub(crate) const EMERGENT_DATA_DIR: &str = "EMERGENT_DATA_DIR";
/// Where the server listens, as `ADDRESS:PORT`. Default 127.0.0.1:8585.
pub(crate) const EMERGENT_LISTEN: &str = "EMERGENT_LISTEN";
/// Names the server answers to beside its own address and loopback, separated by commas; with
/// a port where only that one is meant.
pub(crate) const EMERGENT_ALLOWED_HOSTS: &str = "EMERGENT_ALLOWED_HOSTS";
/// The weakest isolation any workspace may have: `container`, `gvisor` or `microvm`. Default
/// container.
pub(crate) const EMERGENT_MIN_ISOLATION: &str = "EMERGENT_MIN_ISOLATION";
/// Requests per second of every token that is not an administrator's; 0 is without a limit.
/// Default 1000.
pub(crate) const EMERGENT_RATE_LIMIT: &str = "EMERGENT_RATE_LIMIT";
/// How many seconds a client may take nothing of its answer before it is given up. Default 60.
pub(crate) const EMERGENT_STALL_SECONDS: &str = "EMERGENT_STALL_SECONDS";
/// How many days the audit log is kept. Default 90.
pub(crate) const AUDIT_RETENTION_DAYS: &str = "AUDIT_RETENTION_DAYS";
/// What is logged, as tracing directives such as `info` or `emergent_api=debug`. Default info.
pub(crate) const EMERGENT_LOG: &str = "EMERGENT_LOG";
/// Where the commands find the server.
pub(crate) const EMERGENT_URL: &str = "EMERGENT_URL";
/// The token the commands show.
pub(crate) const EMERGENT_TOKEN: &str = "EMERGENT_TOKEN";
/// `false` turns the workspace endpoints and everything behind them off. Default true.
pub(crate) const ENABLE_AGENT_WORKSPACES: &str = "ENABLE_AGENT_WORKSPACES";
/// How many workspaces may be active at once. Default 10.
pub(crate) const WORKSPACE_MAX_CONCURRENT: &str = "WORKSPACE_MAX_CONCURRENT";
/// How many days a workspace lives after its last use. Default 30.
pub(crate) const WORKSPACE_DEFAULT_TTL_DAYS: &str = "WORKSPACE_DEFAULT_TTL_DAYS";
/// Where automatic choice of a provider begins. Default auto: at the strongest.
pub(crate) const WORKSPACE_DEFAULT_PROVIDER: &str = "WORKSPACE_DEFAULT_PROVIDER";
/// Which providers are used, separated by commas: `gvisor`, `docker`, `local`. Default: all, the first two
/// where there is a Docker, the first also where there is a `runsc`.
pub(crate) const WORKSPACE_PROVIDERS: &str = "WORKSPACE_PROVIDERS";
/// How workspaces get under gVisor: `docker`, `direct` (`runsc` without Docker) or `auto`. Default auto: Docker
/// where there is one, else `runsc` itself where it is installed and the server is root.
pub(crate) const WORKSPACE_GVISOR_MODE: &str = "WORKSPACE_GVISOR_MODE";
/// Processors of a workspace whose request does not say. Default 2.
pub(crate) const WORKSPACE_DEFAULT_CPU: &str = "WORKSPACE_DEFAULT_CPU";
/// Memory of a workspace whose request does not say. Default 4G.
pub(crate) const WORKSPACE_DEFAULT_MEMORY: &str = "WORKSPACE_DEFAULT_MEMORY";
/// Disk of a workspace whose request does not say. Default 10G.
pub(crate) const WORKSPACE_DEFAULT_DISK: &str = "WORKSPACE_DEFAULT_DISK";
/// Network of a workspace whose request does not say: `internet` or `isolated`. Default
/// internet, as far as the provider can enforce it.
pub(crate) const WORKSPACE_DEFAULT_NETWORK: &str = "WORKSPACE_DEFAULT_NETWORK";
/// The longest `timeout_ms` of a command, in milliseconds. Default 600000.
pub(crate) const WORKSPACE_BASH_MAX_TIMEOUT_MS: &str = "WORKSPACE_BASH_MAX_TIMEOUT_MS";
/// How many seconds after its last use the stream to a workspace is let go, where holding it costs memory
/// (gVisor after a restart of the server); 0 is never. Default 300.
pub(crate) const WORKSPACE_STREAM_IDLE_SECONDS: &str = "WORKSPACE_STREAM_IDLE_SECONDS";
/// How many minutes after its last use a workspace is stopped; 0 is never. Default 0.
pub(crate) const WORKSPACE_IDLE_STOP_MINUTES: &str = "WORKSPACE_IDLE_STOP_MINUTES";
/// How many seconds after its last use a workspace stands still until the next call, where its provider can
/// suspend and nothing runs in it; 0 is never. Default 0.
pub(crate) const WORKSPACE_IDLE_PAUSE_SECONDS: &str = "WORKSPACE_IDLE_PAUSE_SECONDS";
/// Whether the sandboxes of hosted MCP servers go on when the server ends. Default false.
pub(crate) const MCP_KEEP_RUNNING: &str = "MCP_KEEP_RUNNING";
/// How many sandboxes are made before anybody asks for them; 0 is none. Default 2.
pub(crate) const WORKSPACE_WARM_POOL_SIZE: &str = "WORKSPACE_WARM_POOL_SIZE";
/// How many of a pool, the next to be handed out, do not stand still. Default 1.
pub(crate) const WORKSPACE_WARM_POOL_AWAKE: &str = "WORKSPACE_WARM_POOL_AWAKE";
/// How many copies of workspaces' files are kept at most. Default 100.
pub(crate) const WORKSPACE_MAX_SNAPSHOTS: &str = "WORKSPACE_MAX_SNAPSHOTS";
/// From how much on there is an alert, in per cent: of this host's processors, memory and disk for all
/// workspaces together, and of a workspace's own disk. Default 80.
pub(crate) const WORKSPACE_ALERT_PERCENT: &str = "WORKSPACE_ALERT_PERCENT";
/// Ranges of addresses that workspaces may reach although private ones are denied, separated
/// by commas, such as `10.1.0.0/16,fd12::/64`. The host itself stays closed. Default: none.
pub(crate) const WORKSPACE_EGRESS_ALLOW: &str = "WORKSPACE_EGRESS_ALLOW";
/// Whether automatic choice may use a managed cloud: `self-hosted` or `managed`. Default
/// self-hosted.
pub(crate) const DEPLOYMENT_MODE: &str = "DEPLOYMENT_MODE";
/// 32 bytes as base64, with which every secret in the database is encrypted. Default: a
/// generated key in `secret.key` in the data folder.
pub(crate) const GITHUB_APP_ENCRYPTION_KEY: &str = "GITHUB_APP_ENCRYPTION_KEY";
/// Where people look at GitHub, and git finds its repositories; another one for GitHub Enterprise Server. Default
/// https://github.com.
pub(crate) const GITHUB_WEB_URL: &str = "GITHUB_WEB_URL";
/// Git hosts beside GitHub that repositories may be at, as `scheme://host:port`, separated by commas. One of these
/// may be at a private address, and plain http. Default: none.
pub(crate) const CHECKOUT_ALLOWED_HOSTS: &str = "CHECKOUT_ALLOWED_HOSTS";
/// The database: `postgres://…`, or an SQLite file. Default: `emergent.db` in the data folder.
/// May hold a password, so it is never shown.
pub(crate) const DATABASE_URL: &str = "DATABASE_URL";
/// Which Docker, as its own client takes it: `unix:///path`, `tcp://host:port`. Default: the socket
/// where Docker listens, if it is there.
pub(crate) const DOCKER_HOST: &str = "DOCKER_HOST";
/// Where a person's programs keep their state.
pub(crate) const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// A person's own folder.
pub(crate) const HOME: &str = "HOME";

const KNOWN: [&str; 39] = [
    EMERGENT_CONFIG,
    EMERGENT_DATA_DIR,
    EMERGENT_LISTEN,
    EMERGENT_ALLOWED_HOSTS,
    EMERGENT_MIN_ISOLATION,
    EMERGENT_RATE_LIMIT,
    EMERGENT_STALL_SECONDS,
    AUDIT_RETENTION_DAYS,
    EMERGENT_LOG,
    EMERGENT_URL,
    EMERGENT_TOKEN,
    ENABLE_AGENT_WORKSPACES,
    WORKSPACE_MAX_CONCURRENT,
    WORKSPACE_DEFAULT_TTL_DAYS,
    WORKSPACE_DEFAULT_PROVIDER,
    WORKSPACE_PROVIDERS,
    WORKSPACE_GVISOR_MODE,
    WORKSPACE_DEFAULT_CPU,
    WORKSPACE_DEFAULT_MEMORY,
    WORKSPACE_DEFAULT_DISK,
    WORKSPACE_DEFAULT_NETWORK,
    WORKSPACE_BASH_MAX_TIMEOUT_MS,
    WORKSPACE_STREAM_IDLE_SECONDS,
    WORKSPACE_IDLE_STOP_MINUTES,
    WORKSPACE_IDLE_PAUSE_SECONDS,
    WORKSPACE_WARM_POOL_SIZE,
    WORKSPACE_WARM_POOL_AWAKE,
    WORKSPACE_MAX_SNAPSHOTS,
    WORKSPACE_ALERT_PERCENT,
    WORKSPACE_EGRESS_ALLOW,
    MCP_KEEP_RUNNING,
    DEPLOYMENT_MODE,
    GITHUB_APP_ENCRYPTION_KEY,
    GITHUB_WEB_URL,
    CHECKOUT_ALLOWED_HOSTS,
    DATABASE_URL,
    DOCKER_HOST,
    XDG_STATE_HOME,
    HOME,
];

/// The variables, as they are. Some are secret, so this cannot be printed.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    values: HashMap<&'static str, String>,
}

impl Environment {
    /// Those of this process. An empty one is as good as none: files that pass variables on
    /// often leave them empty.
    pub(crate) fn of_process() -> Self {
        let read = |name: &&'static str| {
            let value = std::env::var_os(name)?.into_string().ok()?;
            (!value.is_empty()).then_some((*name, value))
        };
        Self { values: KNOWN.iter().filter_map(read).collect() }
    }

    #[cfg(test)]
    pub(crate) fn of(values: &[(&'static str, &str)]) -> Self {
        Self { values: values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect() }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A variable read as a value, if it is there.
    pub(crate) fn value<T>(&self, name: &str) -> Result<Option<T>, SettingsError>
    where
        T: FromStr,
        T::Err: ToString,
    {
        let parse = |text: &str| text.parse().map_err(|error: T::Err| SettingsError::new(name, error));
        self.text(name).map(parse).transpose()
    }
}
