//! `PUT /api/v1/agent/workspaces/{id}/files`

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use emergent_types::WorkspaceId;
use emergent_workspaces::WriteStreamError;
use futures::stream::{self, Stream};
use http_body_util::BodyExt;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{FileContent, FileMode};
use crate::audit::Summary;
use crate::errors::ErrorCode::{
    self, FileNotFound, IsDirectory, NoSpace, NotADirectory, NotSupported, PermissionDenied, RequestTimeout,
    UnsupportedMediaType,
};
use crate::errors::{ApiError, PRIVATE, QUERY, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{Query, Tool};
use crate::workspaces::write::WriteAnswer;

/// How long nothing may come. How long the whole takes does not matter.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Which file.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Relative paths start at `/workspace`.
    #[param(value_type = String, required = true)]
    path: Option<String>,
    /// Permission bits of a new file, octal; 644 where not said. A file that is there keeps its
    /// own.
    #[param(value_type = Option<String>, example = "755")]
    mode: Option<FileMode>,
}

/// Why content did not come.
enum Broken {
    Silent,
    Lost(String),
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, &[
    FileNotFound,
    IsDirectory,
    NoSpace,
    NotADirectory,
    NotSupported,
    PermissionDenied,
    RequestTimeout,
    UnsupportedMediaType,
]);

/// Uploads a file of any size, with the folders it needs.
///
/// The body is the content, whatever its type. All or nothing, as with `write`: an upload that
/// breaks off leaves what was there. It may take as long as it needs, but not be silent for a
/// minute.
#[utoipa::path(
    put,
    path = "/api/v1/agent/workspaces/{id}/files",
    tag = "files",
    operation_id = "upload",
    params(("id" = WorkspaceId, Path, description = "The workspace."), Parameters),
    request_body(content = FileContent, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "It is replaced.", body = WriteAnswer),
        (status = 201, description = "It is there, and was not before.", body = WriteAnswer),
        Errors,
    )
)]
pub(crate) async fn upload(
    tool: Tool,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Result<(StatusCode, Json<WriteAnswer>), ApiError> {
    let path = super::path(parameters.path)?;
    let mode = parameters.mode.map(|FileMode(mode)| mode);
    let (parts, body) = request.into_parts();
    let size = checked_size(&parts.headers)?;
    let call = tool.begin(Summary::default().text("path", &path)).await?;
    let written = call.write_stream(&path, mode, size, content(body)).await;
    let written = call.end(written.map_err(refused))?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(WriteAnswer::from(written))))
}

/// The size that is announced, where it is.
fn checked_size(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(ApiError::not_supported("Content-Range", "a file is always written as a whole"));
    }
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(ApiError::about(
            ErrorCode::UnsupportedMediaType,
            "Content-Encoding",
            "the content is written as it comes; send it as it is",
        ));
    }
    // What is no number, or two, the HTTP layer has refused.
    Ok(headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok()))
}

/// The content as it comes.
fn content(body: Body) -> impl Stream<Item = Result<Bytes, Broken>> + Send + 'static {
    stream::try_unfold(body, |mut body| async move {
        loop {
            let frame = match tokio::time::timeout(IDLE_LIMIT, body.frame()).await {
                Err(_) => return Err(Broken::Silent),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(Broken::Lost(error.to_string())),
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers mean nothing here.
            if let Ok(data) = frame.into_data() {
                return Ok(Some((data, body)));
            }
        }
    })
}

fn refused(error: WriteStreamError<Broken>) -> ApiError {
    match error {
        WriteStreamError::Tool(error) => error.into(),
        WriteStreamError::Source(Broken::Silent) => ApiError::new(
            ErrorCode::RequestTimeout,
            format!("nothing of the body came for {} seconds", IDLE_LIMIT.as_secs()),
        ),
        WriteStreamError::Source(Broken::Lost(reason)) => {
            ApiError::invalid("body", format!("cannot be read: {reason}"))
        }
        WriteStreamError::Length { announced, got } => {
            ApiError::invalid("body", format!("{got} bytes came, {announced} were announced"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_promise_something_else_are_refused() {
        let check = |name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            checked_size(&headers).map_err(|error| error.code())
        };
        assert_eq!(check("content-length", "5"), Ok(Some(5)));
        assert_eq!(check("x", "y"), Ok(None));
        assert_eq!(check("content-encoding", "identity"), Ok(None));
        assert_eq!(check("content-encoding", "gzip"), Err(ErrorCode::UnsupportedMediaType));
        assert_eq!(check("content-range", "bytes 0-1/2"), Err(ErrorCode::NotSupported));
    }
}
