//! Background processes: started by one call, watched and signalled by others.
//!
//! They belong to the agent, not to a connection, so they go on when the control plane
//! restarts. What they print is kept in a ring per stream ([`ring`]). Ended ones are remembered
//! until [`MAX_ENDED`] newer ones have ended.

mod output;
mod ring;
mod signal_number;

pub(crate) use output::follow;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use emergent_protocol::v1;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::agent::Shared;
use crate::error::CallError;
use crate::exec::{Before, Command, End, Plan, Status, Tree, drain, pump};

use ring::Ring;

/// Running at once. Each may hold two rings of output.
const MAX_RUNNING: usize = 64;

/// Ended and still remembered.
const MAX_ENDED: usize = 32;

/// What is shown of a command in lists.
const MAX_TITLE_CHARS: usize = 1000;

/// The processes that are running or remembered, by id. Ids are never used twice.
#[derive(Default)]
pub(crate) struct Processes {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last_id: u64,
    known: BTreeMap<u64, Arc<Process>>,
}

struct Process {
    pid: u32,
    title: String,
    started_unix_ms: u64,
    tree: Arc<Tree>,
    exit: Mutex<Option<v1::Exit>>,
    stdout: Arc<Ring>,
    stderr: Arc<Ring>,
}

impl Processes {
    fn find(&self, id: u64) -> Result<Arc<Process>, CallError> {
        self.lock().known.get(&id).cloned().ok_or(CallError::ProcessNotFound { id })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn running(&self) -> usize {
        self.known.values().filter(|process| process.exit().is_none()).count()
    }

    fn add(&mut self, process: Arc<Process>) -> u64 {
        self.last_id += 1;
        self.known.insert(self.last_id, process);
        self.last_id
    }

    /// Forgets the oldest of those that have ended.
    fn forget_surplus(&mut self) {
        let ended = self.known.iter().filter(|(_, process)| process.exit().is_some());
        let ended: Vec<u64> = ended.map(|(id, _)| *id).collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
            self.known.remove(id);
        }
    }
}

impl Process {
    fn exit(&self) -> Option<v1::Exit> {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_exit(&self, exit: v1::Exit) {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit);
    }

    fn ring(&self, stream: v1::OutputStream) -> Result<&Arc<Ring>, CallError> {
        match stream {
            v1::OutputStream::Stdout => Ok(&self.stdout),
            v1::OutputStream::Stderr => Ok(&self.stderr),
            v1::OutputStream::Unspecified => Err(CallError::invalid("neither stdout nor stderr is named")),
        }
    }

    fn to_message(&self, id: u64) -> v1::Process {
        v1::Process {
            process_id: id,
            pid: self.pid,
            command: self.title.clone(),
            started_unix_ms: self.started_unix_ms,
            exit: self.exit(),
            stdout_bytes: self.stdout.total(),
            stderr_bytes: self.stderr.total(),
        }
    }
}

/// Starts a command that outlives this call and its connection.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    request: v1::StartProcessRequest,
) -> Result<v1::StartProcessResponse, CallError> {
    if shared.processes.lock().running() >= MAX_RUNNING {
        return Err(CallError::TooMany { what: "background processes", limit: MAX_RUNNING });
    }
    let plan = Plan::new(shared, request.command)?.lasting();
    let title = plan.title.chars().take(MAX_TITLE_CHARS).collect();
    let before = Before::now(shared);
    let command = shared.launcher.launch(plan).await?;
    let Command { pid, tree, status, stdout, stderr } = command;
    let process = Arc::new(Process {
        pid,
        title,
        started_unix_ms: unix_ms(SystemTime::now()),
        tree,
        exit: Mutex::new(None),
        stdout: Arc::default(),
        stderr: Arc::default(),
    });
    let id = shared.processes.lock().add(process.clone());
    tokio::spawn(accompany(shared.clone(), process, before, Outputs { status, stdout, stderr }));
    Ok(v1::StartProcessResponse { process_id: id, pid })
}

/// Everything that is running or remembered, oldest first.
pub(crate) fn list(shared: &Shared) -> v1::ListProcessesResponse {
    let table = shared.processes.lock();
    let processes = table.known.iter().map(|(id, process)| process.to_message(*id)).collect();
    v1::ListProcessesResponse { processes }
}

/// Signals a process with everything it started.
pub(crate) async fn signal(
    shared: &Shared,
    request: v1::SignalProcessRequest,
) -> Result<v1::SignalProcessResponse, CallError> {
    let tree = match request.stdio_pid {
        0 => shared.processes.find(request.process_id)?.tree.clone(),
        pid => match shared.launcher.of_command(pid) {
            Some(tree) => tree,
            None => return Ok(v1::SignalProcessResponse { delivered: 0 }),
        },
    };
    let signal = signal_number::from_number(request.signal)
        .ok_or_else(|| CallError::invalid(format!("{} is not a signal that can be sent", request.signal)))?;
    Ok(v1::SignalProcessResponse { delivered: tree.signal(signal).await })
}

/// What a process is heard by.
struct Outputs {
    status: watch::Receiver<Option<Status>>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

/// Keeps what a process prints and notes its end. Followers are told of the end after it was
/// noted; what children print later is kept too.
async fn accompany(shared: Arc<Shared>, process: Arc<Process>, before: Before, outputs: Outputs) {
    let Outputs { status, mut stdout, mut stderr } = outputs;
    let mut sinks = (process.stdout.clone(), process.stderr.clone());
    let (exit, stdout_end, stderr_end) = tokio::join!(
        Status::reached(status.clone()),
        pump(&mut stdout, status.clone(), &mut sinks.0),
        pump(&mut stderr, status, &mut sinks.1),
    );
    let oom_killed = before.was_hit(&shared, &process.tree);
    process.set_exit(v1::Exit { code: exit.code, signal: exit.signal, oom_killed });
    shared.processes.lock().forget_surplus();
    process.stdout.finish();
    process.stderr.finish();
    tokio::join!(
        drain_if_held(stdout_end, stdout, &mut sinks.0),
        drain_if_held(stderr_end, stderr, &mut sinks.1),
    );
}

async fn drain_if_held(end: End, source: pipe::Receiver, ring: &mut Arc<Ring>) {
    if end == End::HeldOpen {
        drain(source, ring).await;
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
