//! `POST /api/v1/agent/workspaces/{id}/read`

use axum::Json;
use emergent_agent_client::Page;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text;
use crate::audit::Summary;
use crate::errors::ErrorCode::{FileNotFound, NotADirectory, PermissionDenied};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, Tool};

/// How many lines where a request does not say.
const DEFAULT_LIMIT: u64 = 2000;

/// The most lines that can be asked for. A page has 50 KiB at most whatever is asked for.
const MAX_LIMIT: u64 = 1_000_000;

/// A file or folder to read.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadRequest {
    /// Relative paths start at `/workspace`. Also called `path` or `filePath`.
    #[serde(alias = "path", alias = "filePath")]
    #[schema(value_type = String, required = true, example = "src/main.rs")]
    file_path: Option<String>,
    /// The line to begin with, counted from 1.
    #[schema(minimum = 1)]
    offset: Option<u64>,
    /// How many lines; 2000 where not said.
    #[schema(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
}

/// A read, whole and valid.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    path: String,
    offset: u64,
    limit: u64,
}

impl ReadRequest {
    fn parse(self) -> Result<Read, ApiError> {
        let path = text::path("file_path", text::required("file_path", self.file_path)?)?;
        let offset = self.offset.unwrap_or(1);
        if offset == 0 {
            return Err(ApiError::invalid("offset", "lines are counted from 1"));
        }
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(ApiError::invalid(
                "limit",
                format!("must be between 1 and {MAX_LIMIT}, not {limit}"),
            ));
        }
        Ok(Read { path, offset, limit })
    }
}

/// What is there.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum ReadAnswer {
    /// A page of text.
    Text {
        /// Lines, each as `N: text`. Those over 2000 characters are cut, with a mark.
        content: String,
        /// How many lines the file has.
        total_lines: u64,
        /// Whether there is more, or a line was cut.
        truncated: bool,
        /// The line to go on with, where there is more.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_offset: Option<u64>,
    },
    /// A folder.
    Directory {
        /// Its entries, sorted, with `/` after folders.
        entries: Vec<String>,
        /// How many it has.
        total_entries: u64,
        /// Whether there are more.
        truncated: bool,
        /// The entry to go on with, where there are more.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_offset: Option<u64>,
    },
    /// A file that is not text.
    Binary {
        /// Its bytes.
        size: u64,
        /// Its media type, as far as it can be told.
        mime: String,
    },
}

impl From<Page> for ReadAnswer {
    fn from(page: Page) -> Self {
        match page {
            Page::Text { content, total_lines, truncated, next_offset } => {
                Self::Text { content, total_lines, truncated, next_offset }
            }
            Page::Directory { entries, total_entries, truncated, next_offset } => {
                Self::Directory { entries, total_entries, truncated, next_offset }
            }
            Page::Binary { size, mime } => Self::Binary { size, mime },
        }
    }
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, &[
    FileNotFound,
    NotADirectory,
    PermissionDenied,
]);

/// Reads a page of a text file, lists a folder, or says what a binary file is.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/read",
    tag = "tools",
    operation_id = "read",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = ReadRequest,
    responses((status = 200, description = "What is there.", body = ReadAnswer), Errors)
)]
pub(crate) async fn read(
    tool: Tool,
    JsonBody(request, _memory): JsonBody<ReadRequest>,
) -> Result<Json<ReadAnswer>, ApiError> {
    let read = request.parse()?;
    let call = tool.begin(Summary::default().text("path", &read.path)).await?;
    let result = call.read_page(&read.path, read.offset, read.limit).await;
    call.end(result.map(|page| Json(page.into())).map_err(ApiError::from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_aliases_and_bounds() {
        let parse = |body| serde_json::from_value::<ReadRequest>(body).unwrap().parse();
        for name in ["file_path", "path", "filePath"] {
            let expect = Read { path: "a".to_owned(), offset: 1, limit: 2000 };
            assert_eq!(parse(json!({name: "a"})).unwrap(), expect);
        }
        for (body, field) in [
            (json!({}), "file_path"),
            (json!({"path": ""}), "file_path"),
            (json!({"path": "a\0"}), "file_path"),
            (json!({"path": "a", "offset": 0}), "offset"),
            (json!({"path": "a", "limit": 0}), "limit"),
            (json!({"path": "a", "limit": 1_000_001}), "limit"),
        ] {
            assert_eq!(parse(body.clone()).unwrap_err().field(), Some(field), "{body}");
        }
    }
}
