//! Commands on terminals of their own.
//!
//! ```text
//!  control plane ── data, resize ──► master ═ pty ═ slave ── session leader (a login shell)
//!                ◄─ data, exit ─────                          and what it starts
//! ```
//!
//! A terminal that nobody reads fills and stops the program. When the call is dropped the
//! master is closed, which hangs up the session, and everything the command started is ended
//! as that of any other command.

mod master;

use std::sync::Arc;
use std::time::Duration;

use emergent_protocol::v1;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::{Status as GrpcStatus, Streaming};

use crate::accounts::Account;
use crate::agent::Shared;
use crate::error::CallError;
use crate::exec::{self, Before, EndOnDrop, Plan, Status, Tree};

use master::{Master, READ_BYTES, Size};

/// Terminals open at once.
const MAX_TERMINALS: usize = 64;

/// How long the first message may take.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// How long after the command's end its last output is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Messages waiting for the connection.
const QUEUED_OUTPUT: usize = 2;

/// What programs believe to be drawing on.
const TERM: &str = "xterm-256color";

/// What the terminals of an agent share.
pub(crate) struct Terminals {
    places: Arc<Semaphore>,
}

impl Default for Terminals {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_TERMINALS)) }
    }
}

/// What a terminal shows.
pub(crate) type Output = mpsc::Receiver<Result<v1::TerminalOutput, GrpcStatus>>;

type Sender = mpsc::Sender<Result<v1::TerminalOutput, GrpcStatus>>;

/// Starts a command on a terminal. Dropping the output ends it with everything it started.
pub(crate) async fn terminal(
    shared: &Arc<Shared>,
    mut input: Streaming<v1::TerminalInput>,
) -> Result<Output, GrpcStatus> {
    let too_many = |_| CallError::TooMany { what: "terminals", limit: MAX_TERMINALS };
    let place = shared.terminals.places.clone().try_acquire_owned().map_err(too_many)?;
    let header = tokio::time::timeout(HEADER_LIMIT, input.message()).await;
    let header = header.map_err(|_| CallError::invalid("a terminal must begin with its header"))??;
    let Some(v1::terminal_input::Input::Header(header)) = header.and_then(|message| message.input) else {
        return Err(CallError::invalid("the first message of a terminal must be its header").into());
    };
    let size = Size::from_message(header.size)?;
    let command = header.command.unwrap_or_default();
    let is_shell = command.program.is_none();
    let command = prepare(shared, command)?;
    let user = command.user.clone();
    let plan = Plan::new(shared, Some(command))?;
    let plan = if is_shell { plan.of_the_shell() } else { plan };
    let owner = if user.is_empty() { None } else { Some(Account::find(&user)?) };
    let (master, slave) = master::open(size, owner.as_ref().map(|account| account.uid))?;
    let before = Before::now(shared);
    let (running, pid) = shared.launcher.launch_on_terminal(plan, slave).await?;
    let (sender, output) = mpsc::channel(QUEUED_OUTPUT);
    let run = Run {
        shared: shared.clone(),
        master: Arc::new(master),
        unless_done: EndOnDrop::new(running.tree.clone()),
        tree: running.tree,
        status: running.status,
        before,
        _place: place,
    };
    tokio::spawn(run.accompany(pid, input, sender));
    Ok(output)
}

/// Fills in what is different on a terminal: a login shell, and something to draw on.
fn prepare(shared: &Shared, mut command: v1::Command) -> Result<v1::Command, CallError> {
    if command.program.is_none() {
        let shell = exec::find_shell(&shared.environment.search_path())?;
        let words = vec![shell, "-l".to_owned()];
        command.program = Some(v1::command::Program::Argv(v1::Argv { words }));
    }
    command.environment.entry("TERM".to_owned()).or_insert_with(|| TERM.to_owned());
    Ok(command)
}

struct Run {
    shared: Arc<Shared>,
    /// Closed before the command is ended: that hangs up whoever does not listen to SIGTERM.
    master: Arc<Master>,
    unless_done: EndOnDrop,
    tree: Arc<Tree>,
    status: tokio::sync::watch::Receiver<Option<Status>>,
    before: Before,
    _place: OwnedSemaphorePermit,
}

impl Run {
    async fn accompany(self, pid: u32, input: Streaming<v1::TerminalInput>, output: Sender) {
        let shown = async {
            send(&output, v1::terminal_output::Output::Started(v1::Started { pid })).await;
            let mut showing = std::pin::pin!(show(&self.master, &output));
            let status = tokio::select! {
                // The last program has closed the terminal; the command itself may go on.
                () = &mut showing => Status::reached(self.status.clone()).await,
                status = Status::reached(self.status.clone()) => {
                    // What it printed last is in the terminal. A child that keeps the terminal
                    // open and goes on printing does not delay the answer for long.
                    let _ = tokio::time::timeout(PATIENCE, &mut showing).await;
                    status
                }
            };
            let oom_killed = self.before.was_hit(&self.shared, &self.tree);
            v1::Exit { code: status.code, signal: status.signal, oom_killed }
        };
        let typed = async {
            type_in(&self.master, input).await;
            // No more input is no end.
            std::future::pending::<()>().await;
        };
        let exit = tokio::select! {
            exit = shown => exit,
            () = typed => return,
            () = output.closed() => return,
        };
        self.unless_done.let_go();
        send(&output, v1::terminal_output::Output::Exit(exit)).await;
    }
}

/// A caller that is gone is noticed elsewhere.
async fn send(output: &Sender, message: v1::terminal_output::Output) {
    let _ = output.send(Ok(v1::TerminalOutput { output: Some(message) })).await;
}

/// Passes on what the terminal shows, until nobody has it open.
async fn show(master: &Master, output: &Sender) {
    let mut buffer = vec![0; READ_BYTES];
    while let Some(data) = master.read(&mut buffer).await {
        send(output, v1::terminal_output::Output::Data(data)).await;
        tokio::task::yield_now().await;
    }
}

/// Passes on what is typed.
async fn type_in(master: &Master, mut input: Streaming<v1::TerminalInput>) {
    use v1::terminal_input::Input;
    while let Ok(Some(message)) = input.message().await {
        match message.input {
            Some(Input::Data(data)) => {
                if master.write(&data).await.is_err() {
                    return;
                }
            }
            Some(Input::Resize(size)) => {
                if let Ok(size) = Size::from_message(Some(size)) {
                    master.resize(size);
                }
            }
            Some(Input::Header(_)) | None => return,
        }
    }
}
