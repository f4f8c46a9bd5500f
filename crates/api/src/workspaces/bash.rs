//! `POST /api/v1/agent/workspaces/{id}/bash`, also called `…/exec`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use emergent_agent_client::{CommandSpec, ExecOptions, ExecOutcome, Program};
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{bash_events, environment, text};
use crate::audit::Summary;
use crate::errors::ErrorCode::{NotAcceptable, ProgramMissing};
use crate::errors::{ApiError, JSON_BODY, PLACE, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{Accepted, JsonBody, Tool};
use crate::state::ApiState;
use crate::streaming::ServerSentEvent;

/// How long a command may run where a request does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(120_000);

/// The longest command: what a body can hold. One that is too long for an argument is run from a
/// file outside the workspace.
pub(super) const MAX_COMMAND_BYTES: usize = 15 << 20;

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
    /// said, and 600000 at most unless the server is configured otherwise
    /// (`WORKSPACE_BASH_MAX_TIMEOUT_MS`). Also called `timeout`.
    #[serde(alias = "timeout")]
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// Environment variables, beside those of the workspace.
    #[schema(value_type = Option<Object>)]
    env: Option<environment::Variables>,
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

impl Command {
    /// Variables are left out, names and values.
    fn summary(&self) -> Summary {
        let (spec, background) = match self {
            Self::Foreground(spec, _) => (spec, false),
            Self::Background(spec) => (spec, true),
        };
        let command = match &spec.program {
            Program::Shell(command) => Some(command.as_str()),
            Program::Argv(_) => None,
        };
        Summary::default()
            .maybe("command", command)
            .maybe("workdir", spec.workdir.as_deref())
            .maybe("user", spec.user.as_deref())
            .flag("background", background)
    }
}

impl BashRequest {
    /// `longest` is how long a command may run on this server.
    fn parse(self, longest: Duration) -> Result<Command, ApiError> {
        let command = text::required("command", self.command)?;
        let spec = CommandSpec {
            program: Program::Shell(text::checked("command", command, MAX_COMMAND_BYTES)?),
            workdir: self.workdir.map(|path| text::path("workdir", path)).transpose()?,
            environment: environment::checked(self.env)?.into_iter().collect(),
            user: self.user.map(|user| text::user("user", user)).transpose()?,
        };
        if !self.background.unwrap_or(false) {
            let timeout = self.timeout_ms.map_or(DEFAULT_TIMEOUT.min(longest), Duration::from_millis);
            if timeout.is_zero() || timeout > longest {
                return Err(ApiError::invalid(
                    "timeout_ms",
                    format!("must be between 1 and {}, not {}", longest.as_millis(), timeout.as_millis()),
                ));
            }
            return Ok(Command::Foreground(spec, timeout));
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
    /// The file in the sandbox that has everything it printed, where something is missing here:
    /// both streams, in the order in which they came. It is removed after a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_file: Option<String>,
    /// Whether that file, too, ends before the output did.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_file_truncated: Option<bool>,
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
        let (output_file, output_file_truncated) =
            outcome.output_file.map(|file| (file.path, file.truncated)).unzip();
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
            output_file,
            output_file_truncated,
            timed_out: outcome.timed_out,
            oom_killed: outcome.exit.oom_killed,
        }
    }
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, TOOL_CALL, PLACE, &[NotAcceptable, ProgramMissing]);

/// Runs a command and answers when it has ended, or while it runs.
///
/// A fresh shell each time, with standard input closed. When the client goes away, the
/// command is killed, unless it runs in the background.
///
/// With `Accept: text/event-stream` the answer is a stream of events, each with JSON as its
/// data: `started`; `stdout` and `stderr` with `{"text": …}` as it is printed; at the end
/// `exit`, with the same fields as the answer that is not streamed, or `error`, with `code`,
/// `message` and `details`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/bash",
    tag = "tools",
    operation_id = "bash",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = BashRequest,
    responses(
        (status = 200, description = "What came of it, or comes.", content(
            (BashAnswer = "application/json"),
            (ServerSentEvent = "text/event-stream"),
        )),
        Errors,
    )
)]
pub(crate) async fn bash(
    State(state): State<ApiState>,
    tool: Tool,
    accepted: Accepted,
    JsonBody(request, _memory): JsonBody<BashRequest>,
) -> Result<Response, ApiError> {
    let command = request.parse(state.max_command_time())?;
    if accepted == Accepted::Events && matches!(command, Command::Background(_)) {
        return Err(ApiError::invalid(
            "background",
            "only what runs in the foreground is streamed; …/processes/{process_id}/output is for the rest",
        ));
    }
    let call = tool.begin(command.summary()).await?;
    let result = match command {
        Command::Foreground(spec, timeout) => {
            let options = ExecOptions { timeout, ..ExecOptions::default() };
            if accepted == Accepted::Events {
                return bash_events::stream(call, &spec, options).await;
            }
            call.exec(&spec, options).await.map(|outcome| BashAnswer::Finished(outcome.into()))
        }
        Command::Background(spec) => call
            .start_process(&spec)
            .await
            .map(|process_id| BashAnswer::Started(StartedProcess { process_id })),
    };
    call.end(result.map(|answer| Json(answer).into_response()).map_err(ApiError::from))
}

/// Another name of `…/bash`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/exec",
    tag = "tools",
    operation_id = "exec",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = BashRequest,
    responses(
        (status = 200, description = "What came of it, or comes.", content(
            (BashAnswer = "application/json"),
            (ServerSentEvent = "text/event-stream"),
        )),
        Errors,
    )
)]
pub(crate) async fn exec(
    state: State<ApiState>,
    tool: Tool,
    accepted: Accepted,
    request: JsonBody<BashRequest>,
) -> Result<Response, ApiError> {
    bash(state, tool, accepted, request).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(600);

    fn parse(body: &Value) -> Result<Command, ApiError> {
        serde_json::from_value::<BashRequest>(body.clone()).unwrap().parse(LONGEST)
    }

    #[test]
    fn the_longest_time_is_the_servers() {
        let parse = |body: Value, seconds| {
            serde_json::from_value::<BashRequest>(body).unwrap().parse(Duration::from_secs(seconds))
        };
        let asked = json!({"command": "true", "timeout_ms": 600_001});
        assert!(parse(asked.clone(), 601).is_ok());
        let refused = parse(asked, 5).unwrap_err();
        assert!(refused.into_content()["message"].as_str().unwrap().contains("between 1 and 5000,"));
        let short = Command::Foreground(CommandSpec::shell("true"), Duration::from_secs(5));
        assert_eq!(parse(json!({"command": "true"}), 5).unwrap(), short, "the default is no exception");
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
