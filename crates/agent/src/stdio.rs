//! Programs with a pipe for each of their streams.
//!
//! ```text
//!  control plane ── data, end ──────► pipe ──► standard input ── program
//!                ◄─ data of both ──── pipes ◄─ standard output, standard error
//! ```
//!
//! Neither direction is read faster than the other end takes it: a program that does not read stops the
//! caller, and a caller that does not read stops the program. A signal goes by a call of its own, because
//! it must not wait behind what nobody reads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use emergent_protocol::v1;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::{Status as GrpcStatus, Streaming};

use crate::agent::Shared;
use crate::error::CallError;
use crate::exec::{Before, Command, End, EndOnDrop, Plan, Sink, Status, drain, pump};

/// Programs that are held on to at once.
const MAX_PROGRAMS: usize = 64;

/// How long the first message may take.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// Messages waiting for the connection.
const QUEUED_OUTPUT: usize = 2;

/// What the programs of an agent share.
pub(crate) struct Programs {
    places: Arc<Semaphore>,
}

impl Default for Programs {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_PROGRAMS)) }
    }
}

/// What a program says.
pub(crate) type Output = mpsc::Receiver<Result<v1::StdioOutput, GrpcStatus>>;

type Sender = mpsc::Sender<Result<v1::StdioOutput, GrpcStatus>>;

/// Starts a program. Dropping the output ends it with everything it started, and so does its own end.
pub(crate) async fn stdio(
    shared: &Arc<Shared>,
    mut input: Streaming<v1::StdioInput>,
) -> Result<Output, GrpcStatus> {
    let too_many = |_| CallError::TooMany { what: "programs with open streams", limit: MAX_PROGRAMS };
    let place = shared.programs.places.clone().try_acquire_owned().map_err(too_many)?;
    let header = tokio::time::timeout(HEADER_LIMIT, input.message()).await;
    let header = header.map_err(|_| CallError::invalid("a program must begin with its header"))??;
    let Some(v1::stdio_input::Input::Header(header)) = header.and_then(|message| message.input) else {
        return Err(CallError::invalid("the first message of a program must be its header").into());
    };
    let command = header.command.unwrap_or_default();
    if matches!(command.program, Some(v1::command::Program::Shell(_))) {
        return Err(CallError::invalid("a program is named by its words, not by a text for a shell").into());
    }
    let (read_end, stdin) = input_pipe().map_err(|_| CallError::TooManyInKernel { what: "pipes" })?;
    let plan = Plan::new(shared, Some(command))?.reading(read_end);
    let before = Before::now(shared);
    let command = shared.launcher.launch(plan).await?;
    let (sender, output) = mpsc::channel(QUEUED_OUTPUT);
    let unless_done = EndOnDrop::new(command.tree.clone());
    let run = Run { shared: shared.clone(), unless_done, before, _place: place };
    tokio::spawn(run.accompany(command, stdin, input, sender));
    Ok(output)
}

/// The reading end for the program, the writing end for the runtime.
fn input_pipe() -> Result<(OwnedFd, pipe::Sender), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let write = pipe::Sender::from_owned_fd(write)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((read, write))
}

struct Run {
    shared: Arc<Shared>,
    unless_done: EndOnDrop,
    before: Before,
    _place: OwnedSemaphorePermit,
}

impl Run {
    async fn accompany(
        self,
        command: Command,
        stdin: pipe::Sender,
        input: Streaming<v1::StdioInput>,
        output: Sender,
    ) {
        let Command { pid, tree, status, mut stdout, mut stderr } = command;
        let said = |stream| Said { stream, output: output.clone() };
        let mut sinks = (said(v1::OutputStream::Stdout), said(v1::OutputStream::Stderr));
        let ended = {
            let heard = async {
                send(&output, v1::stdio_output::Output::Started(v1::Started { pid })).await;
                tokio::join!(
                    Status::reached(status.clone()),
                    pump(&mut stdout, status.clone(), &mut sinks.0),
                    pump(&mut stderr, status.clone(), &mut sinks.1),
                )
            };
            let fed = async {
                feed(stdin, input).await;
                // No more input is no end.
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = heard => ended,
                () = fed => return,
                // The caller is gone; `unless_done` ends the program.
                () = output.closed() => return,
            }
        };
        let (status, stdout_end, stderr_end) = ended;
        let oom_killed = self.before.was_hit(&self.shared, &tree);
        for (source, end) in [(stdout, stdout_end), (stderr, stderr_end)] {
            if end == End::HeldOpen {
                tokio::spawn(async move { drain(source, &mut Nowhere).await });
            }
        }
        // What it left running has lost the one it worked for, and nobody else knows of it.
        drop(self.unless_done);
        let exit = v1::Exit { code: status.code, signal: status.signal, oom_killed };
        send(&output, v1::stdio_output::Output::Exit(exit)).await;
    }
}

/// Passes on what comes, then closes the pipe. What a program does not want that has closed its own end
/// is thrown away, as by any pipe: the caller learns of it by the program's end.
async fn feed(stdin: pipe::Sender, mut input: Streaming<v1::StdioInput>) {
    let mut stdin = Some(stdin);
    while let Ok(Some(message)) = input.message().await {
        // Anything else is nothing a control plane sends; the input ends.
        let Some(v1::stdio_input::Input::Data(data)) = message.input else { return };
        if let Some(open) = &mut stdin
            && open.write_all(&data).await.is_err()
        {
            stdin = None;
        }
    }
}

/// A caller that is gone is noticed elsewhere.
async fn send(output: &Sender, message: v1::stdio_output::Output) {
    let _ = output.send(Ok(v1::StdioOutput { output: Some(message) })).await;
}

struct Said {
    stream: v1::OutputStream,
    output: Sender,
}

impl Sink for Said {
    async fn take(&mut self, data: &[u8]) {
        let said = v1::Output { stream: self.stream.into(), data: Bytes::copy_from_slice(data) };
        send(&self.output, v1::stdio_output::Output::Data(said)).await;
    }
}

struct Nowhere;

impl Sink for Nowhere {
    async fn take(&mut self, _: &[u8]) {}
}
