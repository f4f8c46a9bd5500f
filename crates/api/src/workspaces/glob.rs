//! `POST /api/v1/agent/workspaces/{id}/glob`

use axum::Json;
use emergent_agent_client::GlobSpec;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text;
use crate::errors::{ApiError, JSON_BODY, PLACE, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, Tool};

/// Files to find.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobRequest {
    /// What their paths look like: `*`, `?`, `**`, `[…]`, `{…,…}`.
    #[schema(value_type = String, required = true, example = "src/**/*.rs")]
    pattern: Option<String>,
    /// The folder to look in; `/workspace` where not said.
    path: Option<String>,
    /// How many at most; 100 where not said.
    #[schema(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
    /// Whether to find what `.gitignore` leaves out, and `.git`. Also called `includeIgnored`.
    #[serde(alias = "includeIgnored")]
    include_ignored: Option<bool>,
}

impl GlobRequest {
    fn parse(self) -> Result<GlobSpec, ApiError> {
        Ok(GlobSpec {
            pattern: text::pattern("pattern", text::required("pattern", self.pattern)?)?,
            path: self.path.map(|path| text::path("path", path)).transpose()?,
            limit: text::search_limit(self.limit)?,
            include_ignored: self.include_ignored.unwrap_or(false),
        })
    }
}

/// Files that were found.
#[derive(Serialize, ToSchema)]
pub(crate) struct GlobAnswer {
    /// Absolute paths, newest first.
    files: Vec<String>,
    /// Whether there are more.
    truncated: bool,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, PLACE);

/// Finds files by their path, newest first.
///
/// What `.gitignore` leaves out is left out, and so are hidden files unless the pattern names a
/// dot.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/glob",
    tag = "tools",
    operation_id = "glob",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = GlobRequest,
    responses((status = 200, description = "What was found.", body = GlobAnswer), Errors)
)]
pub(crate) async fn glob(
    tool: Tool,
    JsonBody(request, _memory): JsonBody<GlobRequest>,
) -> Result<Json<GlobAnswer>, ApiError> {
    let glob = request.parse()?;
    let call = tool.begin(text::search_summary(&glob.pattern, glob.path.as_deref())).await?;
    let result = call.glob(&glob).await.map_err(ApiError::from);
    call.end(result.map(|found| Json(GlobAnswer { files: found.files, truncated: found.truncated })))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_bounds() {
        let parse = |body| serde_json::from_value::<GlobRequest>(body).unwrap().parse();
        assert_eq!(
            parse(json!({"pattern": "*; rm -rf /"})).unwrap(),
            GlobSpec { pattern: "*; rm -rf /".to_owned(), ..GlobSpec::default() }
        );
        let all = parse(json!({"pattern": "*", "path": "a", "limit": 10_000, "include_ignored": true}));
        let expect = GlobSpec {
            pattern: "*".to_owned(),
            path: Some("a".to_owned()),
            limit: Some(10_000),
            include_ignored: true,
        };
        assert_eq!(all.unwrap(), expect);
        for (body, field) in [
            (json!({}), "pattern"),
            (json!({"pattern": ""}), "pattern"),
            (json!({"pattern": "a\0"}), "pattern"),
            (json!({"pattern": "a".repeat(70_000)}), "pattern"),
            (json!({"pattern": "a", "path": ""}), "path"),
            (json!({"pattern": "a", "limit": 0}), "limit"),
            (json!({"pattern": "a", "limit": 10_001}), "limit"),
        ] {
            assert_eq!(parse(body.clone()).unwrap_err().field(), Some(field), "{field}");
        }
    }
}
