//! The name of every metric. Labels are bounded: routes, tools, codes, never paths. Ids are only in those of one
//! workspace, which go with it.

/// Requests by `method`, `route` and `status`.
pub(crate) const REQUESTS: &str = "emergent_http_requests_total";
/// How long requests took until the answer's head, by `route`.
pub(crate) const REQUEST_SECONDS: &str = "emergent_http_request_seconds";
/// Tool calls and other operations by `tool` and `outcome`.
pub(crate) const TOOL_CALLS: &str = "emergent_tool_calls_total";
/// How long tool calls and other operations took, by `tool`.
pub(crate) const TOOL_CALL_SECONDS: &str = "emergent_tool_call_seconds";
/// How long creates took that succeeded, by `provider`.
pub(crate) const CREATE_SECONDS: &str = "emergent_workspace_create_seconds";
/// Sandboxes made ahead of time, by `state`.
pub(crate) const POOL_MEMBERS: &str = "emergent_warm_pool_members";
/// Creates that were served by one.
pub(crate) const POOL_HITS: &str = "emergent_warm_pool_hits_total";
/// Creates that were not, by `reason`.
pub(crate) const POOL_MISSES: &str = "emergent_warm_pool_misses_total";
/// Workspaces by `status`.
pub(crate) const WORKSPACES: &str = "emergent_workspaces";
/// Processors that running workspaces use, by `provider`.
pub(crate) const WORKSPACES_CPU: &str = "emergent_workspaces_cpu_cores";
/// Memory that running workspaces use, by `provider`.
pub(crate) const WORKSPACES_MEMORY: &str = "emergent_workspaces_memory_bytes";
/// Disk that running workspaces use, by `provider`.
pub(crate) const WORKSPACES_DISK: &str = "emergent_workspaces_disk_bytes";
/// Processors that one running workspace uses, by `workspace` and `provider`; and how many it may use.
pub(crate) const WORKSPACE_CPU: &str = "emergent_workspace_cpu_cores";
pub(crate) const WORKSPACE_CPU_LIMIT: &str = "emergent_workspace_cpu_limit_cores";
/// Memory, likewise.
pub(crate) const WORKSPACE_MEMORY: &str = "emergent_workspace_memory_bytes";
pub(crate) const WORKSPACE_MEMORY_LIMIT: &str = "emergent_workspace_memory_limit_bytes";
/// Disk, likewise.
pub(crate) const WORKSPACE_DISK: &str = "emergent_workspace_disk_bytes";
pub(crate) const WORKSPACE_DISK_LIMIT: &str = "emergent_workspace_disk_limit_bytes";
/// Running workspaces that have no figures of their own because there are too many.
pub(crate) const WORKSPACES_LEFT_OUT: &str = "emergent_workspaces_left_out";
/// Running workspaces that nobody has used for a minute, and members of pools, by `provider`.
pub(crate) const IDLE_WORKSPACES: &str = "emergent_idle_workspaces";
/// Running workspaces that stand still until somebody comes, by `provider`; members of pools among them.
pub(crate) const RESTING_WORKSPACES: &str = "emergent_resting_workspaces";
/// Processors that an idle workspace uses, the mean of them, by `provider`.
pub(crate) const IDLE_CPU: &str = "emergent_idle_workspace_cpu_cores";
/// Memory that an idle workspace uses, the mean of them, by `provider`.
pub(crate) const IDLE_MEMORY: &str = "emergent_idle_workspace_memory_bytes";
/// Alerts now, by `kind`.
pub(crate) const ALERTS: &str = "emergent_alerts";
/// Alerts that were raised, by `kind`.
pub(crate) const ALERTS_RAISED: &str = "emergent_alerts_raised_total";
/// 1 for a provider whose last check passed, else 0, by `provider`.
pub(crate) const PROVIDER_HEALTHY: &str = "emergent_provider_healthy";
/// How often a provider came into a state, by `provider` and `state`.
pub(crate) const PROVIDER_STATE_CHANGES: &str = "emergent_provider_state_changes_total";
/// Entries of the audit log that wait to be written.
pub(crate) const AUDIT_QUEUE: &str = "emergent_audit_queue";
/// Entries and changes of the audit log that were written.
pub(crate) const AUDIT_WRITTEN: &str = "emergent_audit_written_total";
/// Entries of the audit log that are lost.
pub(crate) const AUDIT_DROPPED: &str = "emergent_audit_dropped_total";
/// Requests with no token, or with one that is not valid.
pub(crate) const AUTH_FAILURES: &str = "emergent_auth_failures_total";
/// Requests that were refused because there were too many, by `reason`.
pub(crate) const RATE_LIMITED: &str = "emergent_rate_limited_total";
/// Times that the database failed.
pub(crate) const STORE_ERRORS: &str = "emergent_store_errors_total";
/// Open connections.
pub(crate) const CONNECTIONS: &str = "emergent_connections";
/// Connections that were closed to make room, by `reason`.
pub(crate) const CONNECTIONS_CLOSED: &str = "emergent_connections_closed_total";
/// 1, with the `version` of the server.
pub(crate) const BUILD_INFO: &str = "emergent_build_info";
/// Memory of the server that is in use.
pub(crate) const RESIDENT_BYTES: &str = "emergent_process_resident_bytes";
/// When the server started.
pub(crate) const START_TIME_SECONDS: &str = "emergent_process_start_time_seconds";
/// Hosted MCP servers by `health`.
pub(crate) const MCP_SERVERS: &str = "emergent_mcp_servers";
/// Ends of their programs that nobody had asked for, by `server`. Counted by whoever hosts them.
pub(crate) const MCP_CRASHES: &str = "emergent_mcp_crashes_total";
/// What went wrong on the bridges to them, by `server` and `kind`: `garbage_lines`, `long_lines`,
/// `repaired_lines`, `late_answers`, `unrouted`, `missed` and `refused_requests`.
pub(crate) const MCP_BRIDGE: &str = "emergent_mcp_bridge_total";
