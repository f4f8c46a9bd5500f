//! `POST /api/v1/agent/workspaces/{id}/git`

use axum::Json;
use axum::extract::State;
use emergent_agent_client::{GitAction, GitBranchRequest, GitCommitScope};
use emergent_types::WorkspaceId;

use super::git_answer::GitAnswer;
use super::git_remote::Remote;
use super::git_request::{GitCall, GitRequest};
use crate::audit::Summary;
use crate::errors::ErrorCode::{
    AlreadyExists, FileNotFound, GitFailed, NoSpace, NotADirectory, NotARepository, NotSupported,
    NothingToCommit, PermissionDenied, ProgramMissing, RefNotFound, RepositoryAuthenticationFailed,
    RepositoryNotAllowed, RepositoryNotFound, RepositoryUnreachable, WouldOverwrite,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{JsonBody, Tool};
use crate::state::ApiState;

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, &[
    AlreadyExists,
    FileNotFound,
    GitFailed,
    NoSpace,
    NotADirectory,
    NotARepository,
    NotSupported,
    NothingToCommit,
    PermissionDenied,
    ProgramMissing,
    RefNotFound,
    RepositoryAuthenticationFailed,
    RepositoryNotAllowed,
    RepositoryNotFound,
    RepositoryUnreachable,
    WouldOverwrite,
]);

/// Does something in a git repository of the workspace.
///
/// `action` says what, and which other fields belong to it: `status`; `diff` with `staged`,
/// `paths`, `base`; `log` with `limit`, `ref`; `commit` with `message` and either `files` or
/// `all`; `branch` with `name`, `delete`; `checkout` with `ref`, `create`; `clone` with `repository_url`,
/// `branch`, `depth`; `fetch` with `branch`, `depth`; `pull` with `branch`; `push` with `branch`,
/// `force_with_lease`. All take `path` and `user`. The last four reach the repositories of the workspace and no
/// others, and need no credential in it. No hook of the repository is run.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/git",
    tag = "tools",
    operation_id = "git",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = GitRequest,
    responses((status = 200, description = "What came of it.", body = GitAnswer), Errors)
)]
pub(crate) async fn git(
    State(state): State<ApiState>,
    tool: Tool,
    JsonBody(request, _memory): JsonBody<GitRequest>,
) -> Result<Json<GitAnswer>, ApiError> {
    let mut asked = request.parse()?;
    if asked.action.is_remote() {
        let remote = Remote::admit(&tool, state.checkout(), &mut asked)?;
        let may_add = tool.may_add_repositories();
        let call = tool.begin(summary(&asked)).await?;
        // A future of this size would sit in every other call of the tool.
        let result = Box::pin(remote.run(&call, &asked, may_add)).await;
        return call.end(result.map(|answer| Json(answer.into())));
    }
    if let (GitAction::Commit(commit), Some(checkout)) = (&mut asked.action, state.checkout()) {
        commit.author = Some(checkout.author(tool.workspace()).await);
    }
    let call = tool.begin(summary(&asked)).await?;
    let result = call.git(asked.path.as_deref(), asked.user.as_deref(), &asked.action).await;
    call.end(result.map(|answer| Json(answer.into())).map_err(ApiError::from))
}

fn summary(asked: &GitCall) -> Summary {
    let action = match &asked.action {
        GitAction::Status => "status",
        GitAction::Diff(_) => "diff",
        GitAction::Log(_) => "log",
        GitAction::Commit(_) => "commit",
        GitAction::Branch(_) => "branch",
        GitAction::Checkout(_) => "checkout",
        GitAction::Clone(_) => "clone",
        GitAction::Fetch(_) => "fetch",
        GitAction::Pull(_) => "pull",
        GitAction::Push(_) => "push",
    };
    let summary = Summary::default()
        .text("action", action)
        .maybe("path", asked.path.as_deref())
        .maybe("user", asked.user.as_deref());
    match &asked.action {
        GitAction::Status | GitAction::Branch(GitBranchRequest::List) => summary,
        GitAction::Diff(diff) => {
            let summary = summary.maybe("base", diff.base.as_deref()).flag("staged", diff.staged);
            match diff.paths.as_slice() {
                [] => summary,
                paths => summary.list("paths", paths.iter().map(String::as_str)),
            }
        }
        GitAction::Log(log) => summary.maybe("ref", log.reference.as_deref()),
        GitAction::Commit(commit) => match &commit.what {
            GitCommitScope::All => summary.flag("all", true),
            GitCommitScope::Files(files) => summary.list("files", files.iter().map(String::as_str)),
        },
        GitAction::Branch(GitBranchRequest::Create(name)) => summary.text("name", name),
        GitAction::Branch(GitBranchRequest::Delete(name)) => summary.text("name", name).flag("delete", true),
        GitAction::Checkout(checkout) => {
            summary.text("ref", &checkout.reference).flag("create", checkout.create)
        }
        GitAction::Clone(clone) => {
            summary.text("repository_url", &clone.url).maybe("branch", clone.reference.as_deref())
        }
        GitAction::Fetch(fetch) => summary.maybe("branch", fetch.branch.as_deref()),
        GitAction::Pull(pull) => summary.maybe("branch", pull.branch.as_deref()),
        GitAction::Push(push) => {
            summary.maybe("branch", push.branch.as_deref()).flag("force_with_lease", push.force_with_lease)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_summary_says_what_was_touched() {
        let check = |body: Value, expect: Value| {
            let asked = serde_json::from_value::<GitRequest>(body.clone()).unwrap().parse().unwrap();
            assert_eq!(Value::from(summary(&asked).into_map()), expect, "{body}");
        };
        check(json!({"action": "status"}), json!({"action": "status"}));
        check(
            json!({"action": "diff", "path": "sub", "user": "me", "staged": true, "base": "main", "paths": ["a"]}),
            json!({"action": "diff", "path": "sub", "user": "me", "staged": true, "base": "main", "paths": ["a"]}),
        );
        check(json!({"action": "log", "ref": "v1"}), json!({"action": "log", "ref": "v1"}));
        check(
            json!({"action": "commit", "message": "not shown", "files": ["a", "b"]}),
            json!({"action": "commit", "files": ["a", "b"]}),
        );
        check(
            json!({"action": "commit", "message": "m", "all": true}),
            json!({"action": "commit", "all": true}),
        );
        check(json!({"action": "branch"}), json!({"action": "branch"}));
        check(json!({"action": "branch", "name": "x"}), json!({"action": "branch", "name": "x"}));
        check(
            json!({"action": "branch", "name": "x", "delete": true}),
            json!({"action": "branch", "name": "x", "delete": true}),
        );
        check(
            json!({"action": "checkout", "ref": "x", "create": true}),
            json!({"action": "checkout", "ref": "x", "create": true}),
        );
    }
}
