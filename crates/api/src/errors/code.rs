//! The table of error codes.

use axum::http::StatusCode;

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $status:ident, $text:literal;)+) => {
        /// What went wrong, for programs. Codes never change their name or meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($(#[doc = $doc])+ $variant),+ }

        impl ErrorCode {
            /// Every code, by status.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii_start()),+ }
            }

            pub(crate) fn http_status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }
        }
    };
}

impl ErrorCode {
    /// Whether what runs in a sandbox can bring this about, as often as it likes.
    pub(crate) fn can_be_caused_by_a_guest(self) -> bool {
        matches!(
            self,
            Self::AgentUnreachable
                | Self::AgentMisbehaved
                | Self::McpServerEnded
                | Self::McpAnswerUnusable
                | Self::McpServerUnavailable
                | Self::Timeout
                | Self::RepositoryUnreachable
        )
    }
}

error_codes! {
    /// The request is not well-formed; `details.field` names what is wrong.
    InvalidRequest = BAD_REQUEST, "invalid_request";
    /// The request asks for something this version cannot do; `details.field` names it.
    NotSupported = BAD_REQUEST, "not_supported";
    /// The request asks for something that cannot be upheld here; `details.field` names it.
    NotEnforceable = BAD_REQUEST, "not_enforceable";
    /// The request names a provider that this server does not use; `details.provider` names it.
    ProviderDisabled = BAD_REQUEST, "provider_disabled";
    /// A file was needed and a folder is there.
    IsDirectory = BAD_REQUEST, "is_directory";
    /// A folder was needed and something else is there.
    NotADirectory = BAD_REQUEST, "not_a_directory";
    /// The text to replace is not in the file; `details.suggestions` has close lines.
    NoMatch = BAD_REQUEST, "no_match";
    /// The text to replace is in the file more than once; `details.lines` says where.
    MultipleMatches = BAD_REQUEST, "multiple_matches";
    /// The folder is not in a git repository.
    NotARepository = BAD_REQUEST, "not_a_repository";
    /// There is no token, or it is not valid.
    Unauthorized = UNAUTHORIZED, "unauthorized";
    /// The token is valid but does not allow this.
    Forbidden = FORBIDDEN, "forbidden";
    /// The request is addressed to a host that this server does not answer to.
    ForbiddenHost = FORBIDDEN, "forbidden_host";
    /// The request comes from a web page that may not use this server.
    ForbiddenOrigin = FORBIDDEN, "forbidden_origin";
    /// The session's agent type does not have this tool.
    ToolNotAllowed = FORBIDDEN, "tool_not_allowed";
    /// The registration of the MCP server does not allow this tool.
    McpToolNotAllowed = FORBIDDEN, "mcp_tool_not_allowed";
    /// The file system of the sandbox refused.
    PermissionDenied = FORBIDDEN, "permission_denied";
    /// The repository is none of the workspace's, or its host is none that this server may speak to.
    RepositoryNotAllowed = FORBIDDEN, "repository_not_allowed";
    /// The repository's host does not know who asks, or not well enough.
    RepositoryAuthenticationFailed = FORBIDDEN, "repository_authentication_failed";
    /// There is no such endpoint.
    NotFound = NOT_FOUND, "not_found";
    /// Workspaces are switched off on this server.
    FeatureDisabled = NOT_FOUND, "feature_disabled";
    /// There is no such workspace.
    WorkspaceNotFound = NOT_FOUND, "workspace_not_found";
    /// There is no such token.
    TokenNotFound = NOT_FOUND, "token_not_found";
    /// There is no such snapshot.
    SnapshotNotFound = NOT_FOUND, "snapshot_not_found";
    /// There is no such MCP server, or the token may not use it.
    McpServerNotFound = NOT_FOUND, "mcp_server_not_found";
    /// The image is not present and could not be pulled; `details.image` names it.
    ImageNotFound = NOT_FOUND, "image_not_found";
    /// There is no such file or folder; `details.suggestions` has close names.
    FileNotFound = NOT_FOUND, "file_not_found";
    /// There is no such background process.
    ProcessNotFound = NOT_FOUND, "process_not_found";
    /// There is no such branch, tag or commit.
    RefNotFound = NOT_FOUND, "ref_not_found";
    /// The repository's host knows no such repository, or does not show it.
    RepositoryNotFound = NOT_FOUND, "repository_not_found";
    /// No token is stored for this git host.
    GitHostNotFound = NOT_FOUND, "git_host_not_found";
    /// The endpoint exists, but not with this method; the header `Allow` has those it has.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed";
    /// The client takes none of the kinds of answer that this endpoint has.
    NotAcceptable = NOT_ACCEPTABLE, "not_acceptable";
    /// The body took too long to arrive.
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout";
    /// The workspace is in a state in which this cannot be done; `details.status` names it.
    WorkspaceNotReady = CONFLICT, "workspace_not_ready";
    /// The workspace was destroyed while it was being created.
    WorkspaceDestroyed = CONFLICT, "workspace_destroyed";
    /// Another session works in the workspace; `details.session_id` names it.
    WorkspaceAttached = CONFLICT, "workspace_attached";
    /// Another MCP server has this name; `details.name` has it.
    McpServerExists = CONFLICT, "mcp_server_exists";
    /// The workspace is the sandbox of an MCP server, which is managed under `/api/v1/mcp/servers`.
    IsMcpServer = CONFLICT, "is_mcp_server";
    /// The `Idempotency-Key` was used for another request, or what it made is gone.
    IdempotencyConflict = CONFLICT, "idempotency_conflict";
    /// The token was made under this `Idempotency-Key`; `details.token_id` names it. It is shown once.
    IdempotencyReplayed = CONFLICT, "idempotency_replayed";
    /// Without this token nobody could administer the server any more.
    LastAdminToken = CONFLICT, "last_admin_token";
    /// The file to create is there already.
    AlreadyExists = CONFLICT, "already_exists";
    /// There is nothing to commit.
    NothingToCommit = CONFLICT, "nothing_to_commit";
    /// Local changes would be lost.
    WouldOverwrite = CONFLICT, "would_overwrite";
    /// git refused; the message has its reason.
    GitFailed = CONFLICT, "git_failed";
    /// The sandbox does not have the program that this needs.
    ProgramMissing = CONFLICT, "program_missing";
    /// Nobody listens on that port of the sandbox.
    PortClosed = CONFLICT, "port_closed";
    /// The body is larger than the endpoint takes; `details.max_bytes` says how much that is.
    PayloadTooLarge = PAYLOAD_TOO_LARGE, "payload_too_large";
    /// The path and the query are too long.
    UriTooLong = URI_TOO_LONG, "uri_too_long";
    /// The body is not declared as what the endpoint takes, or is compressed.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type";
    /// The part of the file that was asked for does not exist; `details.size` has its size.
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE, "range_not_satisfiable";
    /// The sandbox could not start a process.
    SpawnFailed = UNPROCESSABLE_ENTITY, "spawn_failed";
    /// The operating system of the sandbox reported an error.
    IoError = UNPROCESSABLE_ENTITY, "io_error";
    /// The endpoint is a WebSocket, and the request does not ask for one.
    UpgradeRequired = UPGRADE_REQUIRED, "upgrade_required";
    /// As many workspaces are active as may be; `details.hint` says what helps.
    LimitReached = TOO_MANY_REQUESTS, "limit_reached";
    /// The sandbox has too many background processes or calls at once.
    TooMany = TOO_MANY_REQUESTS, "too_many";
    /// Too many requests; `Retry-After` says when to go on.
    RateLimited = TOO_MANY_REQUESTS, "rate_limited";
    /// The headers are too many or too long.
    HeadTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large";
    /// The server failed; the log has the reason under the answer's `x-request-id`.
    InternalError = INTERNAL_SERVER_ERROR, "internal_error";
    /// The workspace's agent cannot be reached; it is being repaired.
    AgentUnreachable = BAD_GATEWAY, "agent_unreachable";
    /// The workspace's agent gave an answer that makes no sense.
    AgentMisbehaved = BAD_GATEWAY, "agent_misbehaved";
    /// The workspace's provider could not do it.
    ProviderFailed = BAD_GATEWAY, "provider_failed";
    /// The repository's host cannot be reached, or the transfer took too long or was too large.
    RepositoryUnreachable = BAD_GATEWAY, "repository_unreachable";
    /// The MCP server's program ended during the call, which is not repeated; `details.sent` says whether the
    /// program may have seen it.
    McpServerEnded = BAD_GATEWAY, "mcp_server_ended";
    /// The MCP server's answer cannot be passed on.
    McpAnswerUnusable = BAD_GATEWAY, "mcp_answer_unusable";
    /// The MCP server's program does not run now; `details.health` says why, `Retry-After` when it is started.
    McpServerUnavailable = SERVICE_UNAVAILABLE, "mcp_server_unavailable";
    /// No provider could create the workspace; `details.providers` has each one's reason.
    NoProviderAvailable = SERVICE_UNAVAILABLE, "no_provider_available";
    /// The database cannot be used at the moment.
    StoreUnavailable = SERVICE_UNAVAILABLE, "store_unavailable";
    /// The server is going down.
    ShuttingDown = SERVICE_UNAVAILABLE, "shutting_down";
    /// The server gave up waiting. What was asked may still happen.
    Timeout = GATEWAY_TIMEOUT, "timeout";
    /// The disk of the sandbox is full. What was there before is intact.
    NoSpace = INSUFFICIENT_STORAGE, "no_space";
}

impl ErrorCode {
    /// The HTTP status that carries it.
    pub fn status(self) -> u16 {
        self.http_status().as_u16()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_sorted_by_status() {
        let texts: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), ErrorCode::ALL.len());
        assert!(ErrorCode::ALL.is_sorted_by_key(|code| code.status()));
    }

    #[test]
    fn what_a_guest_can_cause_is_no_fault_of_the_server() {
        for code in [ErrorCode::AgentMisbehaved, ErrorCode::AgentUnreachable, ErrorCode::Timeout] {
            assert!(code.can_be_caused_by_a_guest(), "{}", code.as_str());
        }
        for code in [ErrorCode::InternalError, ErrorCode::ProviderFailed, ErrorCode::StoreUnavailable] {
            assert!(!code.can_be_caused_by_a_guest(), "{}", code.as_str());
        }
    }

    #[test]
    fn every_code_is_documented_with_its_status() {
        let page = include_str!("../../../../docs/errors.md");
        let documented: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        for code in ErrorCode::ALL {
            let row = format!("| `{}` | {} |", code.as_str(), code.status());
            assert!(
                documented.iter().any(|line| line.starts_with(&row)),
                "docs/errors.md has no row that begins with {row:?}"
            );
        }
        assert_eq!(documented.len(), ErrorCode::ALL.len(), "docs/errors.md has a code that does not exist");
    }
}
