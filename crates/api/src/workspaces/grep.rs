//! `POST /api/v1/agent/workspaces/{id}/grep`

use axum::Json;
use emergent_agent_client::{self as agent, GrepOutput, GrepSpec, Grepped};
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text;
use crate::errors::{ApiError, JSON_BODY, PLACE, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, Tool};

/// The most lines of context.
const MAX_CONTEXT: u32 = 100;

/// Lines to find.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepRequest {
    /// A regular expression, in the syntax of Rust's `regex`.
    #[schema(value_type = String, required = true, example = "fn \\w+")]
    pattern: Option<String>,
    /// The folder or the file to look in; `/workspace` where not said.
    path: Option<String>,
    /// Only in files whose path looks like this glob. Also called `glob`.
    #[serde(alias = "glob")]
    include: Option<String>,
    /// How many matches, or files, at most; 100 where not said. Also called `head_limit`.
    #[serde(alias = "head_limit")]
    #[schema(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
    /// Whether upper and lower case are the same. Also called `caseInsensitive`, `ignore_case` or
    /// `-i`.
    #[serde(alias = "caseInsensitive", alias = "ignore_case", alias = "-i")]
    case_insensitive: Option<bool>,
    /// Lines of context before and after each match; none where not said. Also called `-C`.
    #[serde(alias = "-C")]
    #[schema(minimum = 0, maximum = 100)]
    context: Option<u32>,
    /// Whether a match may span lines.
    multiline: Option<bool>,
    /// What to answer with; `content` where not said. Also called `outputMode`.
    #[serde(alias = "outputMode")]
    output_mode: Option<OutputMode>,
    /// Whether to look into what `.gitignore` leaves out, and `.git`. Also called
    /// `includeIgnored`.
    #[serde(alias = "includeIgnored")]
    include_ignored: Option<bool>,
}

/// What a search answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OutputMode {
    /// Lines.
    Content,
    /// Files that have such lines. Also called `files_with_matches`.
    #[serde(alias = "files_with_matches")]
    Files,
    /// Files, and how many such lines each has.
    Count,
}

impl GrepRequest {
    fn parse(self) -> Result<GrepSpec, ApiError> {
        let context = self.context.unwrap_or(0);
        if context > MAX_CONTEXT {
            return Err(ApiError::invalid("context", format!("may be {MAX_CONTEXT} at most, not {context}")));
        }
        let output = match self.output_mode {
            None | Some(OutputMode::Content) => GrepOutput::Content,
            Some(OutputMode::Files) => GrepOutput::Files,
            Some(OutputMode::Count) => GrepOutput::Count,
        };
        Ok(GrepSpec {
            pattern: text::pattern("pattern", text::required("pattern", self.pattern)?)?,
            path: self.path.map(|path| text::path("path", path)).transpose()?,
            include: self.include.map(|include| text::pattern("include", include)).transpose()?,
            limit: text::search_limit(self.limit)?,
            case_insensitive: self.case_insensitive.unwrap_or(false),
            context,
            multiline: self.multiline.unwrap_or(false),
            output,
            include_ignored: self.include_ignored.unwrap_or(false),
        })
    }
}

/// What was found, by path and line.
#[derive(Serialize, ToSchema)]
pub(crate) struct GrepAnswer {
    /// With `content`: the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<GrepMatch>>,
    /// With `files`: absolute paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<String>>,
    /// With `count`: how many lines of each file.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Vec<GrepCount>>,
    /// Whether there is more.
    truncated: bool,
}

/// A line that was found.
#[derive(Serialize, ToSchema)]
struct GrepMatch {
    /// Its file, as an absolute path.
    file: String,
    /// Its number, counted from 1.
    line: u64,
    /// The line, or all lines of a match that spans several. Cut, with a mark, where it is long.
    text: String,
    /// Lines before it, where context was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    before: Vec<String>,
    /// Lines after it, where context was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    after: Vec<String>,
}

/// How many lines of a file were found.
#[derive(Serialize, ToSchema)]
struct GrepCount {
    /// The file, as an absolute path.
    file: String,
    /// The lines.
    count: u64,
}

impl GrepAnswer {
    fn new(found: Grepped, output: GrepOutput) -> Self {
        let mut answer = Self { matches: None, files: None, counts: None, truncated: found.truncated };
        match output {
            GrepOutput::Content => {
                answer.matches = Some(found.matches.into_iter().map(GrepMatch::from).collect());
            }
            GrepOutput::Files => {
                answer.files = Some(found.files.into_iter().map(|found| found.file).collect());
            }
            GrepOutput::Count => {
                let count = |found: agent::GrepFile| GrepCount { file: found.file, count: found.count };
                answer.counts = Some(found.files.into_iter().map(count).collect());
            }
        }
        answer
    }
}

impl From<agent::GrepMatch> for GrepMatch {
    fn from(found: agent::GrepMatch) -> Self {
        Self {
            file: found.file,
            line: found.line,
            text: found.text,
            before: found.before,
            after: found.after,
        }
    }
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, PLACE);

/// Finds lines that match a regular expression.
///
/// Hidden files are searched; what `.gitignore` leaves out, `.git` and binary files are not.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/grep",
    tag = "tools",
    operation_id = "grep",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = GrepRequest,
    responses((status = 200, description = "What was found.", body = GrepAnswer), Errors)
)]
pub(crate) async fn grep(
    tool: Tool,
    JsonBody(request, _memory): JsonBody<GrepRequest>,
) -> Result<Json<GrepAnswer>, ApiError> {
    let grep = request.parse()?;
    let summary = text::search_summary(&grep.pattern, grep.path.as_deref());
    let call = tool.begin(summary.maybe("include", grep.include.as_deref())).await?;
    let result = call.grep(&grep).await.map_err(ApiError::from);
    call.end(result.map(|found| Json(GrepAnswer::new(found, grep.output))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(body: &Value) -> Result<GrepSpec, ApiError> {
        serde_json::from_value::<GrepRequest>(body.clone()).unwrap().parse()
    }

    #[test]
    fn defaults_and_aliases() {
        let plain = GrepSpec { pattern: "$(x)".to_owned(), ..GrepSpec::default() };
        assert_eq!(parse(&json!({"pattern": "$(x)"})).unwrap(), plain);
        let full = GrepSpec {
            include: Some("*.rs".to_owned()),
            limit: Some(3),
            case_insensitive: true,
            context: 2,
            output: GrepOutput::Files,
            ..plain
        };
        for body in [
            json!({"pattern": "$(x)", "include": "*.rs", "limit": 3, "case_insensitive": true, "context": 2,
                "output_mode": "files"}),
            json!({"pattern": "$(x)", "glob": "*.rs", "head_limit": 3, "-i": true, "-C": 2,
                "outputMode": "files_with_matches"}),
        ] {
            assert_eq!(parse(&body).unwrap(), full, "{body}");
        }
        assert_eq!(
            parse(&json!({"pattern": "x", "output_mode": "count"})).unwrap().output,
            GrepOutput::Count
        );
    }

    #[test]
    fn what_is_refused() {
        for (body, field) in [
            (json!({}), "pattern"),
            (json!({"pattern": ""}), "pattern"),
            (json!({"pattern": "a", "path": "\0"}), "path"),
            (json!({"pattern": "a", "include": ""}), "include"),
            (json!({"pattern": "a", "limit": 0}), "limit"),
            (json!({"pattern": "a", "limit": 10_001}), "limit"),
            (json!({"pattern": "a", "context": 101}), "context"),
        ] {
            assert_eq!(parse(&body).unwrap_err().field(), Some(field), "{body}");
        }
        assert!(serde_json::from_value::<GrepRequest>(json!({"pattern": "a", "output_mode": "x"})).is_err());
    }

    #[test]
    fn each_mode_has_its_list() {
        let found = || Grepped {
            matches: Vec::new(),
            files: vec![agent::GrepFile { file: "/a".to_owned(), count: 2 }],
            truncated: false,
        };
        let show = |output| serde_json::to_value(GrepAnswer::new(found(), output)).unwrap();
        assert_eq!(show(GrepOutput::Content), json!({"matches": [], "truncated": false}));
        assert_eq!(show(GrepOutput::Files), json!({"files": ["/a"], "truncated": false}));
        assert_eq!(
            show(GrepOutput::Count),
            json!({"counts": [{"file": "/a", "count": 2}], "truncated": false})
        );
    }
}
