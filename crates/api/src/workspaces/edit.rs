//! `POST /api/v1/agent/workspaces/{id}/edit`

use axum::Json;
use emergent_agent_client::{EditSpec, Edited};
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text;
use crate::audit::Summary;
use crate::errors::ErrorCode::{
    AlreadyExists, FileNotFound, IsDirectory, MultipleMatches, NoMatch, NoSpace, NotADirectory, NotSupported,
    PermissionDenied,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, Tool};

/// A text to replace.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditRequest {
    /// Relative paths start at `/workspace`. Also called `path` or `filePath`.
    #[serde(alias = "path", alias = "filePath")]
    #[schema(value_type = String, required = true, example = "src/main.rs")]
    file_path: Option<String>,
    /// The text that is there; where it is empty, the file is created. Also called `oldString`.
    #[serde(alias = "oldString")]
    #[schema(value_type = String, required = true)]
    old_string: Option<String>,
    /// The text that is to be there. Also called `newString`.
    #[serde(alias = "newString")]
    #[schema(value_type = String, required = true)]
    new_string: Option<String>,
    /// Whether to replace it everywhere; where not said, it must be there once. Also called
    /// `replaceAll`.
    #[serde(alias = "replaceAll")]
    replace_all: Option<bool>,
    /// How the text is looked for; exactly where not said.
    mode: Option<EditMode>,
}

/// How a text is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum EditMode {
    /// As it is given.
    Exact,
    /// Where it is not there as it is given: lines that are equal but for blanks at their ends,
    /// then but for their indentation.
    Fuzzy,
}

impl EditRequest {
    fn parse(self) -> Result<EditSpec, ApiError> {
        let path = text::path("file_path", text::required("file_path", self.file_path)?)?;
        let old_string = text::required("old_string", self.old_string)?;
        let new_string = text::required("new_string", self.new_string)?;
        if old_string == new_string {
            return Err(ApiError::invalid("new_string", "is the same as old_string"));
        }
        Ok(EditSpec {
            path,
            old_string,
            new_string,
            replace_all: self.replace_all.unwrap_or(false),
            fuzzy: self.mode == Some(EditMode::Fuzzy),
        })
    }
}

/// What an edit did.
#[derive(Serialize, ToSchema)]
pub(crate) struct EditAnswer {
    /// Always true: a failure is an error.
    success: bool,
    /// Lines that were changed, added or removed.
    lines_changed: u64,
    /// How many times the text was replaced.
    replacements: u64,
    /// What changed, as a unified diff.
    diff: String,
    /// Whether the diff was cut; not there where it was not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    diff_truncated: bool,
    /// Whether the file was not there before; not there where it was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    created: bool,
    /// With mode `fuzzy`, how the text was found: `exact`, `trailing_blanks` or `indentation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
}

impl EditAnswer {
    fn new(edited: Edited, fuzzy: bool) -> Self {
        Self {
            success: true,
            lines_changed: edited.lines_changed,
            replacements: edited.replacements,
            diff: edited.diff,
            diff_truncated: edited.diff_truncated,
            created: edited.created,
            rule: fuzzy.then(|| edited.rule.as_str()),
        }
    }
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, &[
    AlreadyExists,
    FileNotFound,
    IsDirectory,
    MultipleMatches,
    NoMatch,
    NoSpace,
    NotADirectory,
    NotSupported,
    PermissionDenied,
]);

/// Replaces a text in a file.
///
/// All or nothing, as with `write`; edits of one file wait for each other. Line ends and a byte
/// order mark stay as they are.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/edit",
    tag = "tools",
    operation_id = "edit",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = EditRequest,
    responses((status = 200, description = "It is replaced.", body = EditAnswer), Errors)
)]
pub(crate) async fn edit(
    tool: Tool,
    JsonBody(request, _memory): JsonBody<EditRequest>,
) -> Result<Json<EditAnswer>, ApiError> {
    let edit = request.parse()?;
    let call = tool.begin(Summary::default().text("path", &edit.path)).await?;
    let result = call.edit(&edit).await;
    call.end(result.map(|done| Json(EditAnswer::new(done, edit.fuzzy))).map_err(ApiError::from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_aliases() {
        let parse = |body| serde_json::from_value::<EditRequest>(body).unwrap().parse().unwrap();
        let expect = EditSpec {
            path: "a".to_owned(),
            old_string: "x".to_owned(),
            new_string: "$(y)".to_owned(),
            ..EditSpec::default()
        };
        assert_eq!(parse(json!({"file_path": "a", "old_string": "x", "new_string": "$(y)"})), expect);
        assert_eq!(
            parse(json!({
                "filePath": "a", "oldString": "x", "newString": "$(y)", "replaceAll": true, "mode": "fuzzy"
            })),
            EditSpec { replace_all: true, fuzzy: true, ..expect.clone() }
        );
        assert_eq!(
            parse(json!({"path": "a", "old_string": "x", "new_string": "$(y)", "mode": "exact"})),
            expect
        );
        assert_eq!(parse(json!({"path": "a", "old_string": "", "new_string": "x"})).old_string, "");
    }

    #[test]
    fn what_is_refused() {
        let parse = |body| serde_json::from_value::<EditRequest>(body).unwrap().parse();
        for (body, field) in [
            (json!({"old_string": "a", "new_string": "b"}), "file_path"),
            (json!({"path": "", "old_string": "a", "new_string": "b"}), "file_path"),
            (json!({"path": "a\0", "old_string": "a", "new_string": "b"}), "file_path"),
            (json!({"path": "a", "new_string": "b"}), "old_string"),
            (json!({"path": "a", "old_string": "a"}), "new_string"),
            (json!({"path": "a", "old_string": "a", "new_string": "a"}), "new_string"),
            (json!({"path": "a", "old_string": "", "new_string": ""}), "new_string"),
        ] {
            assert_eq!(parse(body.clone()).unwrap_err().field(), Some(field), "{body}");
        }
    }
}
