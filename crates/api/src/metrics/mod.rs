//! Figures for Prometheus.

mod each_workspace;
pub(crate) mod get;
pub(crate) mod names;
mod workspaces;

use std::sync::OnceLock;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// From 100 µs to 10 min: a read takes a millisecond, a command may take minutes.
const SECONDS: [f64; 16] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Where the figures of this process are kept. The first who asks begins to keep them.
pub(crate) fn recorder() -> Result<&'static PrometheusHandle, &'static str> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE.get_or_init(|| install().map_err(|error| error.to_string())).as_ref().map_err(String::as_str)
}

fn install() -> Result<PrometheusHandle, BuildError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .build_recorder();
    let handle = recorder.handle();
    // Whoever was first keeps the figures; then these stay empty.
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("somebody else keeps the figures of this process");
    }
    describe();
    Ok(handle)
}

fn describe() {
    describe_counter!(names::REQUESTS, "Requests by method, route and status.");
    describe_histogram!(names::REQUEST_SECONDS, Unit::Seconds, "Time until the answer's head, by route.");
    describe_counter!(names::TOOL_CALLS, "Tool calls and other operations by tool and outcome.");
    describe_histogram!(names::TOOL_CALL_SECONDS, Unit::Seconds, "Time of tool calls, by tool.");
    describe_histogram!(names::CREATE_SECONDS, Unit::Seconds, "Time of creates that succeeded, by provider.");
    describe_gauge!(
        names::POOL_MEMBERS,
        "Sandboxes made ahead of time: wanted, ready (of which resting), creating."
    );
    describe_counter!(names::POOL_HITS, "Creates that were served by a sandbox made ahead of time.");
    describe_counter!(names::POOL_MISSES, "Creates that were not, by reason.");
    describe_gauge!(names::WORKSPACES, "Workspaces by status.");
    describe_gauge!(names::WORKSPACES_CPU, "Processors that running workspaces use, by provider.");
    describe_gauge!(
        names::WORKSPACES_MEMORY,
        Unit::Bytes,
        "Memory that running workspaces use, by provider."
    );
    describe_gauge!(names::WORKSPACES_DISK, Unit::Bytes, "Disk that running workspaces use, by provider.");
    describe_gauge!(
        names::IDLE_WORKSPACES,
        "Running workspaces that nobody has used for a minute, and members of pools, by provider."
    );
    describe_gauge!(
        names::RESTING_WORKSPACES,
        "Running workspaces that stand still until somebody comes, by provider."
    );
    describe_gauge!(names::IDLE_CPU, "Processors that an idle workspace uses, on average, by provider.");
    describe_gauge!(
        names::IDLE_MEMORY,
        Unit::Bytes,
        "Memory that an idle workspace uses, on average, by provider."
    );
    describe_gauge!(names::ALERTS, "Alerts now, by kind.");
    describe_counter!(names::ALERTS_RAISED, "Alerts that were raised, by kind.");
    describe_gauge!(names::PROVIDER_HEALTHY, "1 for a provider whose last check passed, else 0.");
    describe_counter!(
        names::PROVIDER_STATE_CHANGES,
        "How often a provider came into a state, by provider and state."
    );
    describe_gauge!(names::AUDIT_QUEUE, "Entries of the audit log that wait to be written.");
    describe_counter!(names::AUDIT_WRITTEN, "Entries and changes of the audit log that were written.");
    describe_counter!(names::AUDIT_DROPPED, "Entries of the audit log that are lost.");
    describe_counter!(names::AUTH_FAILURES, "Requests with no token, or with one that is not valid.");
    describe_counter!(names::RATE_LIMITED, "Requests refused because there were too many, by reason.");
    describe_counter!(names::STORE_ERRORS, "Times that the database failed.");
    describe_gauge!(names::CONNECTIONS, "Open connections.");
    describe_counter!(names::CONNECTIONS_CLOSED, "Connections closed to make room, by reason.");
    describe_gauge!(names::MCP_SERVERS, "Hosted MCP servers by health.");
    describe_counter!(names::MCP_CRASHES, "Ends of MCP servers' programs that nobody asked for, by server.");
    describe_counter!(names::MCP_BRIDGE, "What went wrong on bridges to MCP servers, by server and kind.");
    describe_gauge!(names::BUILD_INFO, "1, with the version of the server.");
    describe_gauge!(names::RESIDENT_BYTES, Unit::Bytes, "Memory of the server that is in use.");
    describe_gauge!(names::START_TIME_SECONDS, Unit::Seconds, "When the server started.");
}
