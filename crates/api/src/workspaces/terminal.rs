//! `GET /api/v1/agent/workspaces/{id}/terminal`

use axum::extract::State;
use axum::response::Response;
use emergent_agent_client::{Program, TerminalEvent, TerminalInput, TerminalOutput, TerminalSpec};
use emergent_types::WorkspaceId;
use emergent_workspaces::InUse;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::bash::MAX_COMMAND_BYTES;
use super::text;
use crate::audit::Summary;
use crate::auth::Caller;
use crate::errors::{
    ApiError, ErrorCode, PLACE, PRIVATE, QUERY, SOCKET, TOOL_CALL, WORKSPACE, documented_errors,
};
use crate::extract::{CallRecord, Query, Tool};
use crate::state::ApiState;
use crate::streaming::{End, Heard, SocketReader, SocketRequest, SocketWriter};

/// The size where a request does not say.
const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };

/// The longest line and the most lines.
const MAX_SIDE: u16 = 4096;

/// What to run.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Given to a shell; a login shell where not said.
    command: Option<String>,
    /// Where to run it; `/workspace` where not said.
    workdir: Option<String>,
    /// The account to run it as; root where not said.
    user: Option<String>,
    /// Characters in a line; 80 where not said.
    #[param(minimum = 1, maximum = 4096)]
    columns: Option<u16>,
    /// Lines; 24 where not said.
    #[param(minimum = 1, maximum = 4096)]
    rows: Option<u16>,
}

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    columns: u16,
    rows: u16,
}

impl Size {
    fn check(self) -> Result<Self, ApiError> {
        for (field, side) in [("columns", self.columns), ("rows", self.rows)] {
            if !(1..=MAX_SIDE).contains(&side) {
                return Err(ApiError::invalid(
                    field,
                    format!("must be between 1 and {MAX_SIDE}, not {side}"),
                ));
            }
        }
        Ok(self)
    }
}

/// A word of the client's about its terminal.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Control {
    Resize(Size),
}

impl Control {
    /// `None` where it makes no sense.
    fn read(text: &str) -> Option<Self> {
        let control = serde_json::from_str(text).ok()?;
        match control {
            Self::Resize(size) => size.check().ok().map(Self::Resize),
        }
    }
}

impl Parameters {
    fn parse(self) -> Result<TerminalSpec, ApiError> {
        let size = Size {
            columns: self.columns.unwrap_or(DEFAULT_SIZE.columns),
            rows: self.rows.unwrap_or(DEFAULT_SIZE.rows),
        };
        let Size { columns, rows } = size.check()?;
        let command = self.command.map(|command| text::checked("command", command, MAX_COMMAND_BYTES));
        Ok(TerminalSpec {
            program: command.transpose()?.map(Program::Shell),
            workdir: self.workdir.map(|path| text::path("workdir", path)).transpose()?,
            user: self.user.map(|user| text::user("user", user)).transpose()?,
            columns,
            rows,
            ..TerminalSpec::default()
        })
    }
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, SOCKET, PLACE, &[ErrorCode::ProgramMissing]);

/// Opens a terminal, as a WebSocket.
///
/// Binary messages are what is typed and what is shown. Text messages are JSON: the client sends
/// `{"resize": {"columns": 120, "rows": 40}}`; the server sends, as its last one,
/// `{"exit": {"code": 0, "signal": null, "oom_killed": false}}`. When the WebSocket is closed, the
/// command ends with everything it started.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/terminal",
    tag = "tools",
    operation_id = "terminal",
    params(("id" = WorkspaceId, Path, description = "The workspace."), Parameters),
    responses((status = 101, description = "The connection is a WebSocket now."), Errors)
)]
pub(crate) async fn terminal(
    State(state): State<ApiState>,
    tool: Tool,
    Query(parameters): Query<Parameters>,
    caller: Caller,
    request: SocketRequest,
) -> Result<Response, ApiError> {
    let spec = parameters.parse()?;
    let command = match &spec.program {
        Some(Program::Shell(command)) => Some(command.as_str()),
        _ => None,
    };
    let summary = Summary::default()
        .maybe("command", command)
        .maybe("workdir", spec.workdir.as_deref())
        .maybe("user", spec.user.as_deref());
    let place = state.sockets().enter(&caller)?;
    let (call, record) = tool.begin(summary).await?.split();
    let (input, output) = match call.terminal(&spec).await {
        Ok(terminal) => terminal,
        Err(error) => return record.end(Err(error.into())),
    };
    let serve = move |reader, writer| serve(record, input, output, reader, writer);
    Ok(state.sockets().serve(request, place, serve))
}

/// Carries both directions until either end is over.
async fn serve(
    record: CallRecord,
    input: TerminalInput,
    mut output: InUse<TerminalOutput>,
    mut reader: SocketReader,
    mut writer: SocketWriter,
) {
    let (code, reason) = {
        let typed = typed(&input, &mut reader);
        let shown = shown(&mut output, &mut writer);
        tokio::select! {
            end = typed => end,
            end = shown => end,
            () = record.token_ended() => (1008, "the token was revoked, or its time is over"),
        }
    };
    match code {
        1000 => record.ended(None),
        1011 => record.ended(Some(ErrorCode::AgentUnreachable)),
        // Dropped: cancelled.
        _ => drop(record),
    }
    // Dropping it ends the command; whoever takes part in the goodbye does not hold it up.
    drop(output);
    writer.close(code, reason).await;
}

async fn typed(input: &TerminalInput, reader: &mut SocketReader) -> End {
    loop {
        let heard = match reader.next().await {
            Ok(heard) => heard,
            Err(end) => return end,
        };
        let sent = match heard {
            Heard::Data(data) => input.send(data).await,
            Heard::Control(text) => match Control::read(&text) {
                Some(Control::Resize(size)) => input.resize(size.columns, size.rows).await,
                None => return (1008, "a text message must be {\"resize\": {\"columns\", \"rows\"}}"),
            },
        };
        if sent.is_err() {
            // The other direction knows more.
            return std::future::pending().await;
        }
    }
}

async fn shown(output: &mut InUse<TerminalOutput>, writer: &mut SocketWriter) -> End {
    loop {
        let Some(event) = writer.while_waiting(output.next()).await else { return (1001, "") };
        let sent = match event {
            Ok(Some(TerminalEvent::Started)) => Ok(()),
            Ok(Some(TerminalEvent::Data(data))) => writer.data(data).await,
            Ok(Some(TerminalEvent::Exited(exit))) => {
                let exit = json!({
                    "exit": { "code": exit.code, "signal": exit.signal, "oom_killed": exit.oom_killed }
                });
                let _ = writer.control(&exit).await;
                return (1000, "the command has ended");
            }
            Ok(None) => return (1000, ""),
            Err(error) => {
                let error = ApiError::from(error).into_content();
                let _ = writer.control(&json!({ "error": error })).await;
                return (1011, "the terminal failed");
            }
        };
        if sent.is_err() {
            return (1001, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::from_query;

    #[test]
    fn defaults_and_bounds() {
        let parse = |query: &str| from_query::<Parameters>(query).and_then(Parameters::parse);
        assert_eq!(parse("").unwrap(), TerminalSpec::default());
        let spec = parse("command=top%20-b&user=user&workdir=/tmp&columns=4096&rows=1").unwrap();
        assert_eq!(spec.program, Some(Program::Shell("top -b".to_owned())));
        assert_eq!((spec.columns, spec.rows), (4096, 1));
        for (query, field) in [
            ("columns=0", "columns"),
            ("columns=4097", "columns"),
            ("rows=0", "rows"),
            ("rows=65536", "rows"),
            ("rows=x", "rows"),
            ("command=", "command"),
            ("command=a%00", "command"),
            ("workdir=", "workdir"),
            ("user=", "user"),
            ("color=red", "color"),
        ] {
            assert_eq!(parse(query).unwrap_err().field(), Some(field), "{query}");
        }
    }

    #[test]
    fn control_words() {
        assert_eq!(
            Control::read(r#"{"resize": {"columns": 120, "rows": 40}}"#),
            Some(Control::Resize(Size { columns: 120, rows: 40 }))
        );
        for bad in [
            "",
            "{}",
            "resize",
            r#"{"resize": {}}"#,
            r#"{"resize": {"columns": 0, "rows": 40}}"#,
            r#"{"resize": {"columns": 120, "rows": 40, "depth": 1}}"#,
            r#"{"resize": {"columns": 120, "rows": 40}, "exit": 1}"#,
            r#"{"exit": {}}"#,
        ] {
            assert_eq!(Control::read(bad), None, "{bad}");
        }
    }
}
