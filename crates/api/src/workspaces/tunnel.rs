//! `GET /api/v1/agent/workspaces/{id}/tunnel/{port}`

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::BytesMut;
use emergent_agent_client::TunnelStream;
use emergent_types::WorkspaceId;
use emergent_workspaces::InUse;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;

use crate::audit::Summary;
use crate::auth::Caller;
use crate::errors::ErrorCode::{self, NotSupported, PortClosed};
use crate::errors::{ApiError, PRIVATE, SOCKET, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{CallRecord, PortPath, Tool};
use crate::state::ApiState;
use crate::streaming::{End, Heard, SocketReader, SocketRequest, SocketWriter};

/// How long a client may send nothing, when the sandbox's side has ended: whether anybody is left there who
/// listens is only known of who is written to.
const HALF_CLOSED_LIMIT: Duration = Duration::from_secs(60);

/// How much of what the sandbox sends goes into one message at most.
const MESSAGE_BYTES: usize = 64 << 10;

/// A word of the client's about its tunnel: it sends no more, but still listens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    end: bool,
}

documented_errors!(Errors: PRIVATE, WORKSPACE, TOOL_CALL, SOCKET, &[NotSupported, PortClosed]);

/// Connects to a TCP port on the loopback of the sandbox, as a WebSocket.
///
/// Binary messages are the bytes of the connection. The text message `{"end": true}` says, from
/// either side, that it sends no more; the other direction goes on. Where nobody listens on the
/// port, the answer is `port_closed`.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/tunnel/{port}",
    tag = "tools",
    operation_id = "tunnel",
    params(
        ("id" = WorkspaceId, Path, description = "The workspace."),
        ("port" = u16, Path, description = "The port, 1 to 65535."),
    ),
    responses((status = 101, description = "The connection is a WebSocket now."), Errors)
)]
pub(crate) async fn tunnel(
    State(state): State<ApiState>,
    tool: Tool,
    PortPath(port): PortPath,
    caller: Caller,
    request: SocketRequest,
) -> Result<Response, ApiError> {
    let place = state.sockets().enter(&caller)?;
    let (call, record) = tool.begin(Summary::default().value("port", port)).await?.split();
    let stream = match call.tunnel(port).await {
        Ok(stream) => stream,
        Err(error) => return record.end(Err(error.into())),
    };
    let serve = move |reader, writer| serve(record, stream, reader, writer);
    Ok(state.sockets().serve(request, place, serve))
}

/// Carries both directions until both have ended, or the client has gone.
async fn serve(
    record: CallRecord,
    stream: InUse<TunnelStream>,
    reader: SocketReader,
    mut writer: SocketWriter,
) {
    let (incoming, outgoing) = tokio::io::split(stream);
    let way_in = WayIn::default();
    let (code, reason) = tokio::select! {
        end = send(outgoing, reader, &way_in) => end,
        end = receive(incoming, &mut writer, &way_in) => end,
        () = record.token_ended() => (1008, "the token was revoked, or its time is over"),
    };
    match code {
        1000 => record.ended(None),
        1011 => record.ended(Some(ErrorCode::IoError)),
        // Dropped: cancelled.
        _ => drop(record),
    }
    writer.close(code, reason).await;
}

/// The direction into the sandbox, as the other one sees it.
#[derive(Default)]
struct WayIn {
    /// The client sends no more, or nobody takes it.
    ended: Notify,
    messages: AtomicU64,
}

impl WayIn {
    /// Returns when it has ended, or when nothing has been sent for a while.
    async fn end(&self) -> &'static str {
        loop {
            let before = self.messages.load(Ordering::Relaxed);
            if tokio::time::timeout(HALF_CLOSED_LIMIT, self.ended.notified()).await.is_ok() {
                return "both directions have ended";
            }
            if self.messages.load(Ordering::Relaxed) == before {
                return "the sandbox's side has ended, and nothing was sent since";
            }
        }
    }
}

/// From the client into the sandbox. Ends when the client has gone.
async fn send(mut outgoing: WriteHalf<InUse<TunnelStream>>, mut reader: SocketReader, way_in: &WayIn) -> End {
    let mut is_open = true;
    loop {
        let heard = match reader.next().await {
            Ok(heard) => heard,
            Err(end) => return end,
        };
        match heard {
            Heard::Data(data) if is_open => {
                way_in.messages.fetch_add(1, Ordering::Relaxed);
                // Whoever does not read any more may still write.
                is_open = outgoing.write_all(&data).await.is_ok();
                if !is_open {
                    way_in.ended.notify_one();
                }
            }
            Heard::Data(_) => {}
            Heard::Control(text) if serde_json::from_str(&text).is_ok_and(|Control { end }| end) => {
                let _ = outgoing.shutdown().await;
                is_open = false;
                way_in.ended.notify_one();
            }
            Heard::Control(_) => return (1008, "a text message must be {\"end\": true}"),
        }
    }
}

/// From the sandbox to the client. Ends when both have ended.
async fn receive(
    mut incoming: ReadHalf<InUse<TunnelStream>>,
    writer: &mut SocketWriter,
    way_in: &WayIn,
) -> End {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(MESSAGE_BYTES);
        let Some(read) = writer.while_waiting(incoming.read_buf(&mut buffer)).await else {
            return (1001, "");
        };
        let sent = match read {
            Ok(0) => break,
            Ok(_) => writer.data(buffer.split().freeze()).await,
            Err(_) => return (1011, "the connection in the sandbox was lost"),
        };
        if sent.is_err() {
            return (1001, "");
        }
    }
    if writer.control(&json!({ "end": true })).await.is_err() {
        return (1001, "");
    }
    match writer.while_waiting(way_in.end()).await {
        Some(why) => (1000, why),
        None => (1001, ""),
    }
}
