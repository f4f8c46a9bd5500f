//! `POST /api/v1/agent/workspaces/{id}/bash`, also called `…/exec`

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use emergent_agent_client::{CommandSpec, ExecOptions, ExecOutcome, Program};
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{environment, text};
use crate::errors::ErrorCode::{FileNotFound, NotADirectory, NotSupported, PermissionDenied};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{AcceptsJson, JsonBody, WorkspacePath, Workspaces};

/// How long a command may run where a request does not say.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// The longest a command may run.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// The longest command: the kernel's limit for one argument.
const MAX_COMMAND_BYTES: usize = (128 << 10) - 1;

/// A command.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BashRequest {
    /// Given to `bash -c`, or to `sh -c` where there is no bash.
    #[schema(value_type = String, required = true, example = "ls -l")]
    command: Option<String>,
    /// Where to run it; `/workspace` where not said.
    workdir: Option<String>,
    /// After this many milliseconds it is killed with everything it started; 120000 where not
    /// said. Also called `timeout`.
    #[serde(alias = "timeout")]
    #[schema(minimum = 1, maximum = 600_000)]
    timeout_ms: Option<u64>,
    /// Environment variables, beside those of the workspace.
    #[schema(value_type = Option<Object>)]
    env: Option<BTreeMap<String, String>>,
    /// The account to run it as; root where not said.
    user: Option<String>,
    /// Whether to answer at once and let it go on by itself, without a timeout.
    background: Option<bool>,
}

/// A command, whole and valid.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Foreground(CommandSpec, Duration),
    Background(CommandSpec),
}

impl BashRequest {
    fn parse(self) -> Result<Command, ApiError> {
        let command = text::required("command", self.command)?;
        let spec = CommandSpec {
            program: Program::Shell(text::checked("command", command, MAX_COMMAND_BYTES)?),
            workdir: self.workdir.map(|path| text::path("workdir", path)).transpose()?,
            environment: environment::checked(self.env)?.into_iter().collect(),
            user: self.user.map(|user| text::user("user", user)).transpose()?,
        };
        if !self.background.unwrap_or(false) {
            let timeout_ms = self.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
            if !(1..=MAX_TIMEOUT_MS).contains(&timeout_ms) {
                return Err(ApiError::invalid(
                    "timeout_ms",
                    format!("must be between 1 and {MAX_TIMEOUT_MS}, not {timeout_ms}"),
                ));
            }
            return Ok(Command::Foreground(spec, Duration::from_millis(timeout_ms)));
        }
        if self.timeout_ms.is_some() {
            return Err(ApiError::invalid("timeout_ms", "a command in the background has no timeout"));
        }
        Ok(Command::Background(spec))
    }
}

/// What came of a command.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BashAnswer {
    /// It has ended.
    Finished(FinishedCommand),
    /// It goes on in the background.
    Started(StartedProcess),
}

/// A command that has ended. That it failed is an answer, not an error.
#[derive(Serialize, ToSchema)]
pub(crate) struct FinishedCommand {
    /// What it printed. Of more than 50 KiB, the beginning and the end, with a line between
    /// that says how much is missing. What is not UTF-8 is replaced.
    stdout: String,
    /// The same for standard error.
    stderr: String,
    /// 0 is success; 128 + signal when a signal ended it.
    exit_code: i32,
    /// How long it ran.
    duration_ms: u64,
    /// Whether something is missing in `stdout` or `stderr`.
    truncated: bool,
    /// How much it printed.
    total_bytes: StreamBytes,
    /// Whether it was killed because its time was up.
    timed_out: bool,
    /// Whether the workspace ran out of memory while it ran.
    oom_killed: bool,
}

/// Bytes per stream.
#[derive(Serialize, ToSchema)]
struct StreamBytes {
    /// Standard output.
    stdout: u64,
    /// Standard error.
    stderr: u64,
}

/// A command in the background.
#[derive(Serialize, ToSchema)]
pub(crate) struct StartedProcess {
    /// Names it under `…/processes`.
    process_id: u64,
}

impl From<ExecOutcome> for FinishedCommand {
    fn from(outcome: ExecOutcome) -> Self {
        Self {
            stdout: outcome.stdout.to_text(),
            stderr: outcome.stderr.to_text(),
            exit_code: outcome.exit.code,
            duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
            truncated: outcome.stdout.is_truncated() || outcome.stderr.is_truncated(),
            total_bytes: StreamBytes {
                stdout: outcome.stdout.total_bytes,
                stderr: outcome.stderr.total_bytes,
            },
            timed_out: outcome.timed_out,
            oom_killed: outcome.exit.oom_killed,
        }
    }
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, &[
    FileNotFound,
    NotADirectory,
    NotSupported,
    PermissionDenied,
]);

/// Runs a command and answers when it has ended.
///
/// A fresh shell each time, with standard input closed. When the client goes away, the
/// command is killed, unless it runs in the background.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/bash",
    tag = "tools",
    operation_id = "bash",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = BashRequest,
    responses((status = 200, description = "What came of it.", body = BashAnswer), Errors)
)]
pub(crate) async fn bash(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    _: AcceptsJson,
    JsonBody(request): JsonBody<BashRequest>,
) -> Result<Json<BashAnswer>, ApiError> {
    let command = request.parse()?;
    let tool = workspaces.tool(id).await?;
    Ok(Json(match command {
        Command::Foreground(spec, timeout) => {
            let outcome = tool.exec(&spec, ExecOptions { timeout, ..ExecOptions::default() }).await?;
            BashAnswer::Finished(outcome.into())
        }
        Command::Background(spec) => {
            BashAnswer::Started(StartedProcess { process_id: tool.start_process(&spec).await? })
        }
    }))
}

/// Another name of `…/bash`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/exec",
    tag = "tools",
    operation_id = "exec",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = BashRequest,
    responses((status = 200, description = "What came of it.", body = BashAnswer), Errors)
)]
pub(crate) async fn exec(
    workspaces: Workspaces,
    id: WorkspacePath,
    accepts: AcceptsJson,
    request: JsonBody<BashRequest>,
) -> Result<Json<BashAnswer>, ApiError> {
    bash(workspaces, id, accepts, request).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(body: &Value) -> Result<Command, ApiError> {
        serde_json::from_value::<BashRequest>(body.clone()).unwrap().parse()
    }

    #[test]
    fn defaults_and_aliases() {
        let expect = |ms| Command::Foreground(CommandSpec::shell("true"), Duration::from_millis(ms));
        assert_eq!(parse(&json!({"command": "true"})).unwrap(), expect(120_000));
        assert_eq!(parse(&json!({"command": "true", "timeout": 5})).unwrap(), expect(5));
        assert_eq!(parse(&json!({"command": "true", "timeout_ms": 600_000})).unwrap(), expect(600_000));
        assert_eq!(
            parse(&json!({"command": "true", "background": true})).unwrap(),
            Command::Background(CommandSpec::shell("true"))
        );
    }

    #[test]
    fn what_is_refused() {
        for (body, field) in [
            (json!({}), "command"),
            (json!({"command": null}), "command"),
            (json!({"command": ""}), "command"),
            (json!({"command": "a\0b"}), "command"),
            (json!({"command": "x".repeat(MAX_COMMAND_BYTES + 1)}), "command"),
            (json!({"command": "true", "timeout_ms": 0}), "timeout_ms"),
            (json!({"command": "true", "timeout_ms": 600_001}), "timeout_ms"),
            (json!({"command": "true", "timeout_ms": 1, "background": true}), "timeout_ms"),
            (json!({"command": "true", "workdir": ""}), "workdir"),
            (json!({"command": "true", "user": ""}), "user"),
            (json!({"command": "true", "env": {"1": ""}}), "env.1"),
        ] {
            assert_eq!(parse(&body).unwrap_err().field(), Some(field), "{body}");
        }
    }
}
