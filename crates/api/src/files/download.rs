//! `GET /api/v1/agent/workspaces/{id}/files`

use std::io;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use emergent_agent_client::{FileKind, FileStream};
use emergent_types::WorkspaceId;
use emergent_workspaces::{InUse, ToolCall};
use futures::stream;
use serde::Deserialize;
use utoipa::IntoParams;

use super::FileContent;
use super::range::{self, Asked, Part};
use super::validators::Version;
use crate::audit::Summary;
use crate::errors::ErrorCode::{
    self, FileNotFound, IsDirectory, NotADirectory, NotSupported, PermissionDenied, RangeNotSatisfiable,
};
use crate::errors::{ApiError, PRIVATE, QUERY, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{CallRecord, Query, Tool};

const NOSNIFF: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));

/// Which file.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Relative paths start at `/workspace`.
    #[param(value_type = String, required = true)]
    path: Option<String>,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, &[
    FileNotFound,
    IsDirectory,
    NotADirectory,
    NotSupported,
    PermissionDenied,
    RangeNotSatisfiable,
]);

/// Downloads a file of any size.
///
/// `Range` asks for one part of it, `If-Range` and `If-None-Match` take what `ETag` or
/// `Last-Modified` said. `HEAD` tells the same without the content.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/files",
    tag = "files",
    operation_id = "download",
    params(("id" = WorkspaceId, Path, description = "The workspace."), Parameters),
    responses(
        (status = 200, description = "The file.", body = FileContent, content_type = "application/octet-stream"),
        (status = 206, description = "A part of it.", body = FileContent, content_type = "application/octet-stream"),
        (status = 304, description = "It is what the client has."),
        Errors,
    )
)]
pub(crate) async fn download(
    tool: Tool,
    Query(parameters): Query<Parameters>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let path = super::path(parameters.path)?;
    let (call, record) = tool.begin(Summary::default().text("path", &path)).await?.split();
    let mut record = Some(record);
    let result = answer(call, &path, &method, &headers, &mut record).await;
    match record {
        Some(record) => record.end(result),
        // The content has it, and the call ends with the content.
        None => result,
    }
}

async fn answer(
    tool: ToolCall,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
    record: &mut Option<CallRecord>,
) -> Result<Response, ApiError> {
    let range = headers.get(RANGE).map(|value| value.to_str().unwrap_or_default());
    if *method == Method::HEAD || range.is_some() {
        let found = tool.stat(path).await?;
        require_file(found.kind, path)?;
        let version = Version::new(found.size, found.modified_unix_ms);
        if version.is_known(headers) {
            return Ok(not_modified(&version));
        }
        if *method == Method::HEAD {
            return Ok(describe(path, found.size, Some(found.size), &version, Body::empty()));
        }
        if let Some(range) = range.filter(|_| version.may_be_continued(headers)) {
            match range::asked(range, found.size) {
                Asked::Whole => {}
                Asked::Part(part) => return partial(tool, path, part, record).await,
                Asked::Beyond => return Ok(beyond(found.size)),
            }
        }
    }
    whole(tool, path, headers, record).await
}

async fn whole(
    tool: ToolCall,
    path: &str,
    headers: &HeaderMap,
    record: &mut Option<CallRecord>,
) -> Result<Response, ApiError> {
    let mut file = tool.read_file(path, 0, 0).await?;
    let size = file.get_ref().size();
    let version = Version::new(size, file.get_ref().modified_unix_ms());
    if version.is_known(headers) {
        return Ok(not_modified(&version));
    }
    if size > 0 {
        return Ok(describe(path, size, Some(size), &version, content(file, None, Some(size), record)));
    }
    // The kernel's own files say that they are empty and are not.
    let first = file.next().await?;
    let length = first.is_none().then_some(0);
    Ok(describe(path, 0, length, &version, content(file, first, length, record)))
}

async fn partial(
    tool: ToolCall,
    path: &str,
    part: Part,
    record: &mut Option<CallRecord>,
) -> Result<Response, ApiError> {
    let file = tool.read_file(path, part.offset, part.length).await?;
    let size = file.get_ref().size();
    if size < part.offset.saturating_add(part.length) {
        // It has become shorter meanwhile.
        return Ok(beyond(size));
    }
    let version = Version::new(size, file.get_ref().modified_unix_ms());
    let body = content(file, None, Some(part.length), record);
    let mut response = describe(path, size, Some(part.length), &version, body);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    set(response.headers_mut(), CONTENT_RANGE, &part.describe(size));
    Ok(response)
}

/// The content, of exactly this length where it was promised: a file that turns out to be
/// shorter breaks the answer off, so that nobody takes it for whole.
fn content(
    file: InUse<FileStream>,
    first: Option<Bytes>,
    length: Option<u64>,
    record: &mut Option<CallRecord>,
) -> Body {
    if length == Some(0) {
        return Body::empty();
    }
    Body::from_stream(stream::try_unfold(
        Content { file, first, rest: length, record: record.take() },
        |mut content| async move {
            let next = content.next().await?;
            Ok::<_, io::Error>(next.map(|bytes| (bytes, content)))
        },
    ))
}

struct Content {
    file: InUse<FileStream>,
    first: Option<Bytes>,
    /// What is still promised, where something was.
    rest: Option<u64>,
    /// Until everything was taken. Dropped before, the download was cancelled.
    record: Option<CallRecord>,
}

impl Content {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.rest == Some(0) {
            return Ok(None);
        }
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => self.file.next().await.map_err(|error| {
                let reason = error.to_string();
                self.end(Some(ApiError::from(error).code()));
                io::Error::other(reason)
            })?,
        };
        match (next, self.rest) {
            (Some(mut bytes), Some(rest)) => {
                bytes.truncate(usize::try_from(rest).unwrap_or(usize::MAX));
                self.rest = Some(rest - bytes.len() as u64);
                if self.rest == Some(0) {
                    self.end(None);
                }
                Ok(Some(bytes))
            }
            (Some(bytes), None) => Ok(Some(bytes)),
            (None, None) => {
                self.end(None);
                Ok(None)
            }
            (None, Some(_)) => {
                self.end(Some(ErrorCode::IoError));
                Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            }
        }
    }

    fn end(&mut self, failure: Option<ErrorCode>) {
        if let Some(record) = self.record.take() {
            record.ended(failure);
        }
    }
}

fn describe(path: &str, size: u64, length: Option<u64>, version: &Version, body: Body) -> Response {
    let mut response = (
        [(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")), NOSNIFF],
        version.headers(),
        body,
    )
        .into_response();
    let headers = response.headers_mut();
    set(headers, CONTENT_DISPOSITION, &disposition(path));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if size > 0 {
        set(headers, ACCEPT_RANGES, "bytes");
    }
    response
}

fn not_modified(version: &Version) -> Response {
    (StatusCode::NOT_MODIFIED, version.headers()).into_response()
}

fn beyond(size: u64) -> Response {
    let error = ApiError::new(RangeNotSatisfiable, format!("Range: the file has {size} bytes"));
    let mut response = error.detail("size", size).into_response();
    set(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{size}"));
    response
}

fn require_file(kind: FileKind, path: &str) -> Result<(), ApiError> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Directory => {
            Err(ApiError::new(ErrorCode::IsDirectory, format!("{path:?} is a folder")).detail("path", path))
        }
        FileKind::Symlink | FileKind::Other => {
            Err(ApiError::invalid("path", "is neither a file nor a folder").detail("path", path))
        }
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Tells a browser to save it under its own name, never to show it. The name is the client's
/// own text, so only harmless characters stay as they are.
fn disposition(path: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let plain: String =
        name.chars().map(|c| if c.is_ascii() && harmless(c as u8) { c } else { '_' }).collect();
    if plain == name {
        return format!("attachment; filename=\"{plain}\"");
    }
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            byte if harmless(byte) => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless_in_a_header() {
        for (path, expect) in [
            ("/workspace/a.txt", "attachment; filename=\"a.txt\""),
            ("a/b/c-d_e", "attachment; filename=\"c-d_e\""),
            ("a b", "attachment; filename=\"a_b\"; filename*=UTF-8''a%20b"),
            ("ä", "attachment; filename=\"_\"; filename*=UTF-8''%C3%A4"),
            (
                "x\"; y=\"\r\nz",
                "attachment; filename=\"x___y____z\"; filename*=UTF-8''x%22%3B%20y%3D%22%0D%0Az",
            ),
        ] {
            assert_eq!(disposition(path), expect, "{path:?}");
            assert!(HeaderValue::from_str(&disposition(path)).is_ok());
        }
    }
}
