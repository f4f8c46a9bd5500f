//! The name of every metric. Labels are bounded: routes, tools, codes, never ids or paths.

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
/// Workspaces by `status`.
pub(crate) const WORKSPACES: &str = "emergent_workspaces";
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
