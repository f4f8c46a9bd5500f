//! Errors in the OpenAPI document: which answers an endpoint can give.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use super::ErrorCode::{self, *};

/// The body of every answer that is not a success.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorContent,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
struct ErrorContent {
    /// For programs; stable.
    #[schema(example = "workspace_not_found")]
    code: String,
    /// For people.
    message: String,
    /// What the code's description promises, such as the field that is wrong.
    details: Map<String, Value>,
}

/// What any endpoint can answer.
pub(crate) const PUBLIC: &[ErrorCode] =
    &[ForbiddenHost, ForbiddenOrigin, UriTooLong, HeadTooLarge, InternalError];

/// What any endpoint behind a token can answer.
pub(crate) const PRIVATE: &[ErrorCode] = &[
    Unauthorized,
    Forbidden,
    ForbiddenHost,
    ForbiddenOrigin,
    UriTooLong,
    RateLimited,
    HeadTooLarge,
    InternalError,
    StoreUnavailable,
    ShuttingDown,
];

/// What an endpoint with query parameters can answer.
pub(crate) const QUERY: &[ErrorCode] = &[InvalidRequest];

/// What an endpoint with a body can answer.
pub(crate) const JSON_BODY: &[ErrorCode] =
    &[InvalidRequest, RequestTimeout, PayloadTooLarge, UnsupportedMediaType];

/// What an endpoint of one workspace can answer.
pub(crate) const WORKSPACE: &[ErrorCode] = &[FeatureDisabled, WorkspaceNotFound];

/// What a call to a workspace's agent can answer.
pub(crate) const TOOL_CALL: &[ErrorCode] = &[
    InvalidRequest,
    ToolNotAllowed,
    WorkspaceNotReady,
    TooMany,
    SpawnFailed,
    IoError,
    AgentUnreachable,
    AgentMisbehaved,
    Timeout,
];

/// What a call about a path can answer where nothing is there, or not what was expected.
pub(crate) const PLACE: &[ErrorCode] = &[NotSupported, NotADirectory, PermissionDenied, FileNotFound];

/// What an endpoint that is a WebSocket can answer instead of one.
pub(crate) const SOCKET: &[ErrorCode] = &[InvalidRequest, UpgradeRequired, TooMany];

/// Describes the error answers of one endpoint for the OpenAPI document.
macro_rules! documented_errors {
    ($name:ident: $($set:expr),+ $(,)?) => {
        /// The error answers of this endpoint.
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::errors::to_responses(&[$($set),+])
            }
        }
    };
}

pub(crate) use documented_errors;

/// One response per status, which lists its codes.
pub(crate) fn to_responses(sets: &[&[ErrorCode]]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in ErrorCode::ALL.iter().filter(|code| sets.iter().any(|set| set.contains(code))) {
        by_status.entry(code.status()).or_default().push(*code);
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), describe(&codes).into())).collect()
}

fn describe(codes: &[ErrorCode]) -> Response {
    let lines: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.meaning())).collect();
    ResponseBuilder::new()
        .description(lines.join("\n\n"))
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build(),
        )
        .build()
}
