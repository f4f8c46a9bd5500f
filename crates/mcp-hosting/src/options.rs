use std::time::Duration;

/// How MCP servers are hosted. Total and validated.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether sandboxes go on when the control plane ends, so that the next start is quicker.
    pub keep_running: bool,
    /// How long a program may take to end when the control plane does.
    pub shutdown_grace: Duration,
    /// How long a program may take to end when somebody restarts or deletes its server.
    pub restart_grace: Duration,
    /// How long a registration and a restart wait for the program to be ready before they answer.
    pub patience: Duration,
    /// How long a sandbox may take until it can be used.
    pub sandbox_limit: Duration,
    /// How often a program is asked whether it is there.
    pub ping_interval: Duration,
    /// How long it may take to say so.
    pub ping_timeout: Duration,
    /// How long calls wait for a program that ended to be started again.
    pub call_grace: Duration,
    /// Servers that may be registered at once.
    pub max_servers: usize,
    /// Processes that a `dedicated` server may have at once.
    pub max_dedicated: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_running: false,
            shutdown_grace: Duration::from_secs(30),
            restart_grace: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            sandbox_limit: Duration::from_secs(120),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(10),
            call_grace: Duration::from_secs(5),
            max_servers: 200,
            max_dedicated: 32,
        }
    }
}
