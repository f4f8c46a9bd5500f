//! From the errors of the crates below to answers. Nothing else decides which status or code
//! a failure has.

use emergent_agent_client::{AgentError, FailureSubject};
use emergent_mcp_hosting::{CallFailure, HostingError};
use emergent_orchestrator::Attempt;
use emergent_protocol::FailureCode;
use emergent_store::StoreError;
use emergent_types::{SnapshotId, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{CreateError, ForkError, LifecycleError, SnapshotError, ToolError};
use serde_json::{Value, json};

use super::{ApiError, ErrorCode};
use crate::metrics::names;

/// When a place may have become free.
const RETRY_LIMIT_SECONDS: u32 = 10;
/// When every provider's health has been checked again.
const RETRY_PROVIDERS_SECONDS: u32 = 30;
/// When a restarted server may be there.
const RETRY_RESTART_SECONDS: u32 = 5;
/// When the database may have caught up.
const RETRY_STORE_SECONDS: u32 = 1;

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> Self {
        let message = error.to_string();
        match error {
            CreateError::LimitReached { active, max } => limit_reached(message, active, max),
            CreateError::NotEnforceable { field, reason } => not_enforceable(field, &reason),
            CreateError::ImageNotFound { reference, .. } => image_not_found(message, reference),
            CreateError::ProviderDisabled { provider, .. } => {
                Self::about(ErrorCode::ProviderDisabled, "provider", message)
                    .detail("provider", provider.as_str())
            }
            CreateError::NameTaken { name } => name_taken(message, name),
            CreateError::SnapshotNotFound { id } => Self::snapshot_not_found(id),
            CreateError::NoProvider(none) => no_provider(message, &none.attempts),
            CreateError::AgentSilent { .. } => no_provider(message, &[]),
            CreateError::NotRecorded { .. } => Self::store_unavailable(message),
            CreateError::Destroyed { .. } => Self::new(ErrorCode::WorkspaceDestroyed, message),
            CreateError::ShuttingDown => shutting_down(),
            CreateError::Rejected { reason } => Self::internal(reason),
            CreateError::KeyConflict { id, .. } => {
                Self::new(ErrorCode::IdempotencyConflict, message).detail("workspace_id", id.to_string())
            }
            CreateError::Store(error) => error.into(),
        }
    }
}

impl From<emergent_checkout::Refusal> for ApiError {
    fn from(refusal: emergent_checkout::Refusal) -> Self {
        let code = match refusal.code() {
            "repository_not_allowed" => ErrorCode::RepositoryNotAllowed,
            "repository_authentication_failed" => ErrorCode::RepositoryAuthenticationFailed,
            "repository_not_found" => ErrorCode::RepositoryNotFound,
            _ => ErrorCode::RepositoryUnreachable,
        };
        let error = Self::new(code, refusal.to_string());
        match refusal.hint() {
            Some(hint) => error.detail("hint", hint),
            None => error,
        }
    }
}

impl From<LifecycleError> for ApiError {
    fn from(error: LifecycleError) -> Self {
        let message = error.to_string();
        match error {
            LifecycleError::NotFound { id } => Self::workspace_not_found(id),
            LifecycleError::WrongState { status, .. } => not_ready(message, status),
            LifecycleError::Attached { holder, .. } => {
                Self::new(ErrorCode::WorkspaceAttached, message).detail("session_id", holder.to_string())
            }
            LifecycleError::LimitReached { active, max } => limit_reached(message, active, max),
            LifecycleError::ProviderMissing { provider, .. } => {
                Self::new(ErrorCode::ProviderFailed, message).detail("provider", provider.as_str())
            }
            LifecycleError::Provider { .. } => Self::new(ErrorCode::ProviderFailed, message),
            LifecycleError::ShuttingDown => shutting_down(),
            LifecycleError::Store { reason, retryable } => store_failed(reason, retryable),
        }
    }
}

fn name_taken(message: String, name: String) -> ApiError {
    ApiError::new(ErrorCode::McpServerExists, message).detail("name", name)
}

impl From<HostingError> for ApiError {
    fn from(error: HostingError) -> Self {
        let message = error.to_string();
        match error {
            HostingError::NotFound(asked) => Self::mcp_server_not_found(&asked),
            HostingError::NameTaken(name) => name_taken(message, name),
            HostingError::TooMany(max) => Self::new(ErrorCode::LimitReached, message)
                .detail("max", max)
                .detail("hint", "delete a server that is not needed")
                .retry_after(RETRY_LIMIT_SECONDS),
            HostingError::Invalid(problems) => {
                let fields = problems.0.iter().map(|problem| (problem.field.clone(), json!(problem.reason)));
                let first = problems.0.first().map(|problem| problem.field.clone()).unwrap_or_default();
                Self::new(ErrorCode::InvalidRequest, message)
                    .detail("field", first)
                    .detail("fields", Value::Object(fields.collect()))
            }
            HostingError::Create(error) => error.into(),
            HostingError::Lifecycle(error) => error.into(),
            HostingError::Store(error) => error.into(),
            HostingError::ShuttingDown => shutting_down(),
        }
    }
}

impl From<CallFailure> for ApiError {
    fn from(error: CallFailure) -> Self {
        let message = error.to_string();
        match error {
            CallFailure::NotFound(asked) => Self::mcp_server_not_found(&asked),
            CallFailure::MethodRefused { .. } => {
                Self::new(ErrorCode::InvalidRequest, message).detail("field", "method")
            }
            CallFailure::ToolRefused { tool, .. } => {
                Self::new(ErrorCode::McpToolNotAllowed, message).detail("tool", tool)
            }
            CallFailure::Unavailable { health, retry_after, .. } => {
                let error = Self::new(ErrorCode::McpServerUnavailable, message);
                let error = error.detail("health", health.as_str());
                match retry_after {
                    Some(after) => error.retry_after(u32::try_from(after.as_secs() + 1).unwrap_or(u32::MAX)),
                    None => error,
                }
            }
            CallFailure::Ended { sent, .. } => {
                Self::new(ErrorCode::McpServerEnded, message).detail("sent", sent)
            }
            CallFailure::TimedOut { .. } => Self::new(ErrorCode::Timeout, message),
            CallFailure::Malformed(_) => {
                Self::new(ErrorCode::InvalidRequest, message).detail("field", "params")
            }
            CallFailure::Unusable { .. } => Self::new(ErrorCode::McpAnswerUnusable, message),
            CallFailure::TooManyProcesses { .. } => Self::new(ErrorCode::TooMany, message),
        }
    }
}

impl From<SnapshotError> for ApiError {
    fn from(error: SnapshotError) -> Self {
        let message = error.to_string();
        match error {
            SnapshotError::NotFound { id } => Self::snapshot_not_found(id),
            SnapshotError::Unsupported { .. } => Self::about(ErrorCode::NotSupported, "snapshot", message),
            SnapshotError::QuotaReached { count, max } => Self::new(ErrorCode::LimitReached, message)
                .detail("active", count)
                .detail("max", max)
                .detail("hint", "delete a snapshot that is not needed")
                .retry_after(RETRY_LIMIT_SECONDS),
            SnapshotError::KeyKnown { id, .. } | SnapshotError::KeyConflict { id, .. } => {
                Self::new(ErrorCode::IdempotencyConflict, message).detail("snapshot_id", id.to_string())
            }
            SnapshotError::NotRemoved { .. } => Self::new(ErrorCode::ProviderFailed, message),
            SnapshotError::Workspace(error) => error.into(),
        }
    }
}

impl From<ForkError> for ApiError {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::Snapshot(error) => error.into(),
            ForkError::Create(error) => error.into(),
        }
    }
}

impl From<ToolError> for ApiError {
    fn from(error: ToolError) -> Self {
        let message = error.to_string();
        match error {
            ToolError::NotFound { id } => Self::workspace_not_found(id),
            ToolError::NotReady { status, .. } => not_ready(message, status),
            ToolError::ShuttingDown => shutting_down(),
            ToolError::DiskFull { path, .. } if path.is_empty() => Self::new(ErrorCode::NoSpace, message),
            ToolError::DiskFull { path, .. } => Self::new(ErrorCode::NoSpace, message).detail("path", path),
            ToolError::Agent(error) => error.into(),
        }
    }
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> Self {
        let message = error.to_string();
        match error {
            AgentError::Unreachable { .. } | AgentError::Refused { .. } => {
                Self::new(ErrorCode::AgentUnreachable, message)
            }
            AgentError::TimedOut { .. } => Self::new(ErrorCode::Timeout, message),
            AgentError::Malformed { .. } => Self::new(ErrorCode::AgentMisbehaved, message),
            AgentError::Unsupported { .. } => Self::new(ErrorCode::NotSupported, message),
            AgentError::Failed { code, message, about } => tool_failed(code, message, *about),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            reason.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        store_failed(reason, error.is_retryable())
    }
}

impl ApiError {
    /// The database cannot be used; the reason is logged, not sent.
    pub(crate) fn store_unavailable(reason: impl Into<String>) -> Self {
        Self::new(ErrorCode::StoreUnavailable, "the database cannot be used at the moment")
            .because(reason)
            .retry_after(RETRY_STORE_SECONDS)
    }

    /// There is no such snapshot.
    pub(crate) fn snapshot_not_found(id: SnapshotId) -> Self {
        Self::new(ErrorCode::SnapshotNotFound, format!("snapshot {id} does not exist"))
    }

    /// There is no such workspace.
    pub(crate) fn workspace_not_found(id: WorkspaceId) -> Self {
        Self::new(ErrorCode::WorkspaceNotFound, format!("workspace {id} does not exist"))
    }
}

fn tool_failed(code: FailureCode, message: String, about: FailureSubject) -> ApiError {
    let mut error = ApiError::new(tool_failure(code), message);
    if !about.path.is_empty() {
        error = error.detail("path", about.path);
    }
    if code == FailureCode::FileNotFound || !about.suggestions.is_empty() {
        error = error.detail("suggestions", about.suggestions);
    }
    if !about.lines.is_empty() {
        error = error.detail("lines", about.lines);
    }
    if let Some(position) = about.position {
        error = error.detail("position", position);
    }
    if let Some(field) = about.field {
        error = error.detail("field", field);
    }
    error
}

fn tool_failure(code: FailureCode) -> ErrorCode {
    match code {
        FailureCode::InvalidRequest => ErrorCode::InvalidRequest,
        FailureCode::FileNotFound => ErrorCode::FileNotFound,
        FailureCode::IsDirectory => ErrorCode::IsDirectory,
        FailureCode::NotADirectory => ErrorCode::NotADirectory,
        FailureCode::PermissionDenied => ErrorCode::PermissionDenied,
        FailureCode::NoSpace => ErrorCode::NoSpace,
        FailureCode::NoMatch => ErrorCode::NoMatch,
        FailureCode::MultipleMatches => ErrorCode::MultipleMatches,
        FailureCode::AlreadyExists => ErrorCode::AlreadyExists,
        FailureCode::NotARepository => ErrorCode::NotARepository,
        FailureCode::RefNotFound => ErrorCode::RefNotFound,
        FailureCode::NothingToCommit => ErrorCode::NothingToCommit,
        FailureCode::WouldOverwrite => ErrorCode::WouldOverwrite,
        FailureCode::GitFailed => ErrorCode::GitFailed,
        FailureCode::ProgramMissing => ErrorCode::ProgramMissing,
        FailureCode::PortClosed => ErrorCode::PortClosed,
        FailureCode::ProcessNotFound => ErrorCode::ProcessNotFound,
        FailureCode::Timeout => ErrorCode::Timeout,
        FailureCode::TooMany => ErrorCode::TooMany,
        FailureCode::SpawnFailed => ErrorCode::SpawnFailed,
        FailureCode::IoError => ErrorCode::IoError,
    }
}

fn limit_reached(message: String, active: u32, max: u32) -> ApiError {
    ApiError::new(ErrorCode::LimitReached, message)
        .detail("active", active)
        .detail("max", max)
        .detail("hint", "wait for a workspace to end, or stop or destroy one that is not needed")
        .retry_after(RETRY_LIMIT_SECONDS)
}

fn not_enforceable(what: &str, reason: &str) -> ApiError {
    // Providers speak of the sandbox they would make; limits are a level deeper in a request.
    let field = match what {
        "cpu" | "memory" | "disk" => format!("resource_limits.{what}"),
        other => other.to_owned(),
    };
    ApiError::about(ErrorCode::NotEnforceable, field, format!("cannot be enforced here: {reason}"))
}

fn image_not_found(message: String, reference: String) -> ApiError {
    ApiError::about(ErrorCode::ImageNotFound, "base_image", message).detail("image", reference)
}

fn no_provider(message: String, attempts: &[Attempt]) -> ApiError {
    let providers: Vec<Value> = attempts
        .iter()
        .map(|attempt| json!({ "provider": attempt.provider.as_str(), "reason": attempt.reason }))
        .collect();
    ApiError::new(ErrorCode::NoProviderAvailable, message)
        .detail("providers", providers)
        .retry_after(RETRY_PROVIDERS_SECONDS)
}

fn not_ready(message: String, status: WorkspaceStatus) -> ApiError {
    ApiError::new(ErrorCode::WorkspaceNotReady, message).detail("status", status.as_str())
}

fn shutting_down() -> ApiError {
    ApiError::new(ErrorCode::ShuttingDown, "the server is shutting down").retry_after(RETRY_RESTART_SECONDS)
}

fn store_failed(reason: String, retryable: bool) -> ApiError {
    metrics::counter!(names::STORE_ERRORS).increment(1);
    if retryable { ApiError::store_unavailable(reason) } else { ApiError::internal(reason) }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use emergent_orchestrator::NoProvider;

    use super::*;

    fn check(error: impl Into<ApiError>, expect: ErrorCode) {
        let error = error.into();
        assert_eq!(error.code(), expect, "{error:?}");
    }

    #[test]
    fn each_error_has_its_code() {
        let id = WorkspaceId::generate();
        check(CreateError::LimitReached { active: 1, max: 1 }, ErrorCode::LimitReached);
        check(
            CreateError::NotEnforceable { field: "network", reason: String::new() },
            ErrorCode::NotEnforceable,
        );
        check(LifecycleError::NotFound { id }, ErrorCode::WorkspaceNotFound);
        check(
            LifecycleError::WrongState { id, status: WorkspaceStatus::Failed },
            ErrorCode::WorkspaceNotReady,
        );
        check(LifecycleError::Store { reason: String::new(), retryable: true }, ErrorCode::StoreUnavailable);
        check(LifecycleError::Store { reason: String::new(), retryable: false }, ErrorCode::InternalError);
        check(ToolError::NotReady { id, status: WorkspaceStatus::Stopped }, ErrorCode::WorkspaceNotReady);
        check(AgentError::Refused { reason: String::new() }, ErrorCode::AgentUnreachable);
    }

    /// Whoever could not be given a workspace now is told when to ask again.
    #[test]
    fn a_create_that_may_succeed_later_says_when() {
        let id = WorkspaceId::generate();
        let none = NoProvider { attempts: Vec::new(), retryable: true, refusal: None };
        for error in [
            CreateError::NoProvider(none),
            CreateError::AgentSilent { id, reason: "it is silent".to_owned() },
            CreateError::NotRecorded { id },
            CreateError::ShuttingDown,
        ] {
            let response = ApiError::from(error).into_response();
            assert_eq!(response.status(), 503, "{response:?}");
            assert!(response.headers().contains_key("retry-after"), "{response:?}");
        }
    }

    #[test]
    fn what_no_provider_can_enforce_is_the_requests_fault() {
        let error =
            ApiError::from(CreateError::NotEnforceable { field: "base_image", reason: String::new() });
        assert_eq!((error.code(), error.field()), (ErrorCode::NotEnforceable, Some("base_image")));
        let error = ApiError::from(CreateError::NotEnforceable { field: "memory", reason: String::new() });
        assert_eq!(error.field(), Some("resource_limits.memory"));
    }

    #[test]
    fn an_image_that_is_not_there_is_named() {
        let error = ApiError::from(CreateError::ImageNotFound {
            reference: "r.example/a:1".to_owned(),
            reason: "no such host".to_owned(),
        });
        assert_eq!((error.code(), error.field()), (ErrorCode::ImageNotFound, Some("base_image")));
        assert_eq!(error.code().status(), 404);
        let shown = format!("{error:?}");
        assert!(shown.contains("r.example/a:1") && shown.contains("no such host"), "{shown}");
    }

    #[test]
    fn failures_of_tools_keep_their_code() {
        for code in [FailureCode::FileNotFound, FailureCode::NoSpace, FailureCode::ProcessNotFound] {
            assert_eq!(tool_failure(code).as_str(), code.as_str());
        }
    }
}
