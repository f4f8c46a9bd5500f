//! Logs on standard error: for people on a terminal, as JSON otherwise.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

use crate::settings::environment::{EMERGENT_LOG, Environment};

/// From here on everything is logged.
pub(super) fn start(environment: &Environment) -> Result<()> {
    let directives = environment.text(EMERGENT_LOG).unwrap_or("info");
    let filter = EnvFilter::try_new(directives).with_context(|| format!("{EMERGENT_LOG}: {directives:?}"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // What cannot be logged, because the disk of the log is full, is lost. To say so on the same stderr would end
    // the request that was to be logged.
    let logs = logs.log_internal_errors(false);
    let started = if stderr().is_terminal() {
        logs.with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
