//! The server as the first process of its namespace, as it is in a container without an init.
//!
//! Whatever loses its parent there becomes the first process's child, the processes of every sandbox among them, and
//! stays a zombie until it is waited for. A server waits for what it has started itself and for nothing else, so
//! another process does that: this one starts the server once more, hands signals on, and waits for everybody.
//!
//! ```text
//!  1: emergent serve, which waits ──► emergent serve ──► sandboxes
//!        ▲                                                  │ without their parent
//!        └──────────────────────────────────────────────────┘
//! ```

use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;

/// What a shell answers for a process that a signal has ended.
const ENDED_BY_SIGNAL: i32 = 128;

/// Whether this process is the one that everybody's orphans come to.
pub(crate) fn is_so() -> bool {
    getpid().is_init()
}

/// Starts this program once more with the same arguments, and ends as that one ends.
pub(crate) fn stand_before() -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the runtime cannot be started")?;
    Ok(runtime.block_on(serve_and_wait())?)
}

async fn serve_and_wait() -> anyhow::Result<ExitCode> {
    // Listened for before there is anybody who could end.
    let mut children = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let program = std::env::current_exe().context("this program cannot be found")?;
    // Waited for below, with all the others.
    let server = Command::new(program).args(std::env::args_os().skip(1)).spawn();
    let server = server.context("the server cannot be started")?;
    let server = Pid::from_child(&server);
    loop {
        tokio::select! {
            _ = children.recv() => {
                if let Some(code) = wait_for_all(server) {
                    return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
                }
            }
            _ = terminate.recv() => hand_on(server, Signal::TERM),
            _ = interrupt.recv() => hand_on(server, Signal::INT),
        }
    }
}

/// It may have ended already; then that is what comes next.
fn hand_on(server: Pid, signal: Signal) {
    let _ = kill_process(server, signal);
}

/// Waits for everybody who has ended; the server's exit code if it is one of them.
fn wait_for_all(server: Pid) -> Option<i32> {
    let mut code = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == server {
            code = Some(exit_code(status));
        }
    }
    code
}

fn exit_code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| Some(ENDED_BY_SIGNAL + status.terminating_signal()?)).unwrap_or(1)
}
