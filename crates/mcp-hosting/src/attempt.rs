//! One start of a program, from its sandbox to its end.
//!
//! ```text
//!   sandbox ready ─► program started ─► hands shaken ─► Up ─► ends, or is told to ─► Down
//! ```

use std::sync::Arc;
use std::time::Duration;

use emergent_agent_client::StdioSpec;
use emergent_mcp_bridge::{self as bridge, Bridge, EndReason, Phase};
use emergent_provider::ImageDefaults;
use emergent_store::McpServerRow;
use emergent_types::ServerMode;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::crash::Obituary;
use crate::listening::{Listening, Streams};
use crate::logs::{LogStream, Logs};
use crate::process::{Process, Stdout};
use crate::registry::{Context, Server};
use crate::{Options, sandbox};

/// How long a program that is of no use may take to end.
const USELESS_GRACE: Duration = Duration::from_secs(2);
/// How long a program may take until its port answers.
const PORT_LIMIT: Duration = Duration::from_secs(60);
/// How long a bridge may take to see that its program is over.
const BRIDGE_LIMIT: Duration = Duration::from_secs(2);

/// How a start came to its end.
pub(crate) struct Outcome {
    pub(crate) obituary: Obituary,
    /// The last lines of its stderr.
    pub(crate) stderr: Vec<String>,
    /// The bridge, for the next program.
    pub(crate) bridge: Option<bridge::Ended>,
}

/// What is heard of a start.
pub(crate) enum News {
    Up,
    Down(Outcome),
}

/// A start that is under way, or has led to a program that runs. Dropping it ends the program.
pub(crate) struct Attempt {
    end: watch::Sender<Option<Duration>>,
    up: Option<oneshot::Receiver<()>>,
    task: JoinHandle<Outcome>,
}

impl Attempt {
    /// Starts the program. `previous` is the bridge to the one before.
    pub(crate) fn begin(context: Arc<Context>, server: Arc<Server>, previous: Option<bridge::Ended>) -> Self {
        let (end, wishes) = watch::channel(None);
        let (up, is_up) = oneshot::channel();
        let run = Run { context, server, wishes };
        Self { end, up: Some(is_up), task: tokio::spawn(run.play(previous, up)) }
    }

    /// Tells it to end, and makes it after `grace`.
    pub(crate) fn end(&self, grace: Duration) {
        self.end.send_replace(Some(grace));
    }

    /// What happens next. Nothing is lost when this is dropped.
    pub(crate) async fn news(&mut self) -> News {
        if let Some(up) = &mut self.up {
            let is_up = up.await.is_ok();
            self.up = None;
            if is_up {
                return News::Up;
            }
        }
        let lost = |error: tokio::task::JoinError| Outcome {
            obituary: Obituary::Failed(format!("whoever looked after it is gone: {error}")),
            stderr: Vec::new(),
            bridge: None,
        };
        News::Down((&mut self.task).await.unwrap_or_else(lost))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Run {
    context: Arc<Context>,
    server: Arc<Server>,
    wishes: watch::Receiver<Option<Duration>>,
}

impl Run {
    async fn play(mut self, previous: Option<bridge::Ended>, up: oneshot::Sender<()>) -> Outcome {
        let failed = |reason: String, bridge| Outcome {
            obituary: Obituary::Failed(reason),
            stderr: Vec::new(),
            bridge,
        };
        let (context, server) = (self.context.clone(), self.server.clone());
        let (workspaces, limit) = (&context.workspaces, context.options.sandbox_limit);
        let row = server.row();
        if row.mode == ServerMode::Dedicated && row.stdio_bridge {
            let ready = tokio::select! {
                ready = sandbox::ready(workspaces, server.id, limit) => ready.map(drop),
                _ = self.wish() => return failed("it was told to end".to_owned(), previous),
            };
            return match ready {
                Ok(()) => Outcome { bridge: None, ..self.keep(up).await },
                Err(error) => failed(error.to_string(), previous),
            };
        }
        let spec = match program(&row) {
            Ok(spec) => spec,
            Err(reason) => return failed(reason, previous),
        };
        let stdout = if row.stdio_bridge { Stdout::Protocol } else { Stdout::Log };
        let started = tokio::select! {
            started = sandbox::start(workspaces, server.id, limit, &spec, &server.logs, stdout) => started,
            _ = self.wish() => return failed("it was told to end".to_owned(), previous),
        };
        let mut process = match started {
            Ok(process) => process,
            Err(error) => return failed(error.to_string(), previous),
        };
        if row.stdio_bridge
            && let Some(io) = process.io()
        {
            return self.bridged(process, io, None, previous, up).await;
        }
        let listening = match Listening::of(&context.workspaces, &row) {
            Ok(listening) => listening,
            Err(reason) => return failed(reason, previous),
        };
        self.listening(process, listening, previous, up).await
    }

    /// When it is told to end, and how long it may take.
    async fn wish(&mut self) -> Duration {
        let wish = self.wishes.wait_for(Option::is_some).await.map(|grace| *grace);
        match wish {
            Ok(grace) => grace.unwrap_or_default(),
            // Nobody is left to wish for anything: this is about to be dropped.
            Err(_) => std::future::pending().await,
        }
    }

    /// A server whose programs are its clients' own: only the sandbox is kept.
    async fn keep(&mut self, up: oneshot::Sender<()>) -> Outcome {
        let _gone = up.send(());
        let (context, id) = (self.context.clone(), self.server.id);
        let reason = tokio::select! {
            () = sandbox::lost(&context.workspaces, id) => "its sandbox was lost",
            _ = self.wish() => "it was told to end",
        };
        Outcome { obituary: Obituary::Failed(reason.to_owned()), stderr: Vec::new(), bridge: None }
    }

    /// A program that speaks HTTP itself: spoken to as soon as its port answers.
    async fn listening(
        &mut self,
        process: Process,
        listening: Listening,
        previous: Option<bridge::Ended>,
        up: oneshot::Sender<()>,
    ) -> Outcome {
        let obituary = tokio::select! {
            answers = listening.answers(PORT_LIMIT) => match answers {
                Ok(()) => None,
                Err(reason) => {
                    process.end(USELESS_GRACE).await;
                    Some(Obituary::Failed(reason))
                }
            },
            obituary = process.ended() => Some(obituary),
            grace = self.wish() => Some(process.end(grace).await),
        };
        if let Some(obituary) = obituary {
            return Outcome { obituary, stderr: process.stderr_tail(), bridge: previous };
        }
        let mut streams = Streams::new(listening);
        let io = streams.open(Some(&process));
        self.bridged(process, io, Some(streams), previous, up).await
    }

    async fn bridged(
        &mut self,
        process: Process,
        io: bridge::ServerIo,
        mut streams: Option<Streams>,
        previous: Option<bridge::Ended>,
        up: oneshot::Sender<()>,
    ) -> Outcome {
        let known = self.server.bridge();
        let (handle, mut running) = match (previous, known) {
            (Some(ended), Some(handle)) => (handle, ended.restart(io)),
            _ => {
                let options = bridge_options(&self.server, &self.context.options);
                let (handle, running) = Bridge::start(options, io);
                self.server.set_bridge(Some(handle.clone()));
                (handle, running)
            }
        };
        let mut phase = handle.phase();
        let mut up = Some(up);
        let (obituary, ended) = loop {
            tokio::select! {
                is_ready = shaken(&mut phase), if up.is_some() => {
                    if is_ready && let Some(up) = up.take() {
                        let _gone = up.send(());
                    }
                }
                ended = &mut running => match (ended.ok(), &mut streams) {
                    // A program may forget its sessions without having ended: it is met anew.
                    (Some(ended), Some(streams)) if streams.were_lost() && !process.is_over() => {
                        running = ended.restart(streams.open(Some(&process)));
                    }
                    (ended, _) => break (obituary(&process, ended.as_ref()).await, ended),
                },
                grace = self.wish() => {
                    let obituary = process.end(grace).await;
                    break (obituary, finished(&handle, running).await);
                }
            }
        };
        Outcome { obituary, stderr: process.stderr_tail(), bridge: ended }
    }
}

/// Waits for the handshake. That of the program before is over for sure.
async fn shaken(phase: &mut watch::Receiver<Phase>) -> bool {
    phase.wait_for(|phase| matches!(phase, Phase::Ready(_))).await.is_ok()
}

/// What is known of a program whose bridge is over. One that goes on without it is of no use, and is ended.
pub(crate) async fn obituary(process: &Process, ended: Option<&bridge::Ended>) -> Obituary {
    match ended.map(bridge::Ended::reason) {
        Some(EndReason::Exited(_)) => process.ended().await,
        reason => {
            let reason = reason.map_or_else(|| "its bridge is gone".to_owned(), EndReason::to_string);
            process.end(USELESS_GRACE).await;
            Obituary::Failed(reason)
        }
    }
}

/// The bridge of a program that has ended.
async fn finished(handle: &bridge::Handle, mut running: JoinHandle<bridge::Ended>) -> Option<bridge::Ended> {
    if let Ok(ended) = tokio::time::timeout(BRIDGE_LIMIT, &mut running).await {
        return ended.ok();
    }
    handle.close();
    running.await.ok()
}

/// What is run: the registration's command, or what the author of the image wants.
pub(crate) fn program(row: &McpServerRow) -> Result<StdioSpec, String> {
    let image: ImageDefaults = match &row.image_defaults {
        Some(kept) => serde_json::from_value(kept.clone().into())
            .map_err(|error| format!("what its image runs is not understood: {error}"))?,
        None => ImageDefaults::default(),
    };
    let words: Vec<String> = match &row.command {
        Some(command) => command.clone(),
        None => image.entrypoint.into_iter().chain(image.command).collect(),
    };
    if words.is_empty() {
        return Err("its image names no program, and the registration has no command".to_owned());
    }
    // The account alone: the group behind a colon comes with it.
    let user = image.user.as_deref().map(|user| user.split(':').next().unwrap_or(user).to_owned());
    Ok(StdioSpec {
        workdir: image.workdir.filter(|folder| !folder.is_empty()),
        user: user.filter(|user| !user.is_empty()),
        environment: row
            .environment
            .expose()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        ..StdioSpec::new(words)
    })
}

pub(crate) fn bridge_options(server: &Server, options: &Options) -> bridge::Options {
    let row = server.row();
    bridge::Options {
        serialize: row.serialize,
        restart_grace: options.call_grace,
        log: Some(protocol_log(server.logs.clone())),
        live: Some(server.live.clone()),
        ..bridge::Options::default()
    }
}

/// Where log messages of the protocol go that belong to no client.
fn protocol_log(logs: Arc<Logs>) -> mpsc::Sender<bridge::RawJson> {
    let (sender, mut messages) = mpsc::channel::<bridge::RawJson>(64);
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            logs.say(LogStream::Protocol, message.as_str());
        }
    });
    sender
}

#[cfg(test)]
mod tests {
    use emergent_store::{Environment, now};
    use emergent_types::{ProviderChoice, RestartPolicy, WorkspaceId};
    use serde_json::{Value, json};

    use super::*;

    fn row(command: Option<&[&str]>, image_defaults: Option<Value>) -> McpServerRow {
        McpServerRow {
            id: WorkspaceId::generate(),
            name: "test".to_owned(),
            image: None,
            command: command.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
            image_defaults: image_defaults.and_then(|value| value.as_object().cloned()),
            provider: ProviderChoice::Auto,
            restart_policy: RestartPolicy::Always,
            mode: ServerMode::Shared,
            serialize: false,
            stdio_bridge: true,
            port: None,
            path: None,
            tools_allow: None,
            tools_deny: Vec::new(),
            call_timeout_ms: 30_000,
            environment: Environment::from_iter([("KEY".to_owned(), "secret".to_owned())]),
            created_at: now(),
            updated_at: now(),
        }
    }

    #[test]
    fn the_command_wins_over_the_images_own_program() {
        let image = json!({"entrypoint": ["/server"], "command": ["--stdio"], "workdir": "/srv", "user": "node:node"});
        let spec = program(&row(None, Some(image.clone()))).unwrap();
        assert_eq!(spec.words, ["/server", "--stdio"]);
        assert_eq!((spec.workdir.as_deref(), spec.user.as_deref()), (Some("/srv"), Some("node")));
        assert_eq!(spec.environment.get("KEY").map(String::as_str), Some("secret"));
        let spec = program(&row(Some(&["other"]), Some(image))).unwrap();
        assert_eq!(spec.words, ["other"]);
        assert!(program(&row(None, None)).unwrap_err().contains("no command"));
    }
}
