//! `POST /api/v1/agent/workspaces/{id}/write`

use axum::Json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use emergent_agent_client::Written;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text;
use crate::audit::Summary;
use crate::errors::ErrorCode::{FileNotFound, IsDirectory, NoSpace, NotADirectory, PermissionDenied};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, Tool};

/// A file to write.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteRequest {
    /// Relative paths start at `/workspace`. Also called `path` or `filePath`.
    #[serde(alias = "path", alias = "filePath")]
    #[schema(value_type = String, required = true, example = "notes.txt")]
    file_path: Option<String>,
    /// The new content, as text. Either this or `content_base64`.
    content: Option<String>,
    /// The new content, as base64.
    content_base64: Option<String>,
}

impl WriteRequest {
    fn parse(self) -> Result<(String, Bytes), ApiError> {
        let path = text::path("file_path", text::required("file_path", self.file_path)?)?;
        let content = match (self.content, self.content_base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|error| ApiError::invalid("content_base64", format!("not base64: {error}")))?,
            (None, None) => return Err(ApiError::invalid("content", "is missing, and so is content_base64")),
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("content_base64", "either this or content, not both"));
            }
        };
        Ok((path, content.into()))
    }
}

/// What a write did.
#[derive(Serialize, ToSchema)]
pub(crate) struct WriteAnswer {
    /// Always true: a failure is an error.
    success: bool,
    /// How much was written.
    bytes_written: u64,
    /// Whether the file was not there before.
    created: bool,
}

impl From<Written> for WriteAnswer {
    fn from(written: Written) -> Self {
        Self { success: true, bytes_written: written.bytes_written, created: written.created }
    }
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, &[
    IsDirectory,
    NotADirectory,
    PermissionDenied,
    FileNotFound,
    NoSpace,
]);

/// Writes a file, with the folders it needs.
///
/// All or nothing: whoever reads meanwhile sees the old content or the new, and on an error
/// the old content stays. The mode of a file that was there is kept.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/write",
    tag = "tools",
    operation_id = "write",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = WriteRequest,
    responses((status = 200, description = "It is written.", body = WriteAnswer), Errors)
)]
pub(crate) async fn write(
    tool: Tool,
    JsonBody(request, _memory): JsonBody<WriteRequest>,
) -> Result<Json<WriteAnswer>, ApiError> {
    let (path, content) = request.parse()?;
    let call = tool.begin(Summary::default().text("path", &path).value("bytes", content.len())).await?;
    let result = call.write_file(&path, content).await;
    call.end(result.map(|written| Json(written.into())).map_err(ApiError::from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_given_one_way() {
        let parse = |body| serde_json::from_value::<WriteRequest>(body).unwrap().parse();
        let expect = ("a".to_owned(), Bytes::from_static(b"hi"));
        assert_eq!(parse(json!({"file_path": "a", "content": "hi"})).unwrap(), expect);
        assert_eq!(parse(json!({"path": "a", "content_base64": "aGk="})).unwrap(), expect);
        assert_eq!(parse(json!({"filePath": "a", "content": ""})).unwrap().1, Bytes::new());
        for (body, field) in [
            (json!({"content": "hi"}), "file_path"),
            (json!({"path": "a"}), "content"),
            (json!({"path": "a", "content": "hi", "content_base64": "aGk="}), "content_base64"),
            (json!({"path": "a", "content_base64": "%"}), "content_base64"),
        ] {
            assert_eq!(parse(body.clone()).unwrap_err().field(), Some(field), "{body}");
        }
    }
}
