//! `emergent workspace shell`

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use emergent_client::{Client, TerminalEvent, TerminalRequest, TerminalWriter};
use emergent_types::WorkspaceId;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;
use crate::output::Output;
use crate::shell_words;

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Where
    id: WorkspaceId,
    /// The folder to start in
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// The account to run as
    #[arg(long)]
    user: Option<String>,
    /// What to run on the terminal; a login shell where not said
    #[arg(last = true)]
    command: Vec<String>,
}

impl Shell {
    pub(super) async fn run(self, client: &Client, _: Output) -> Result<ExitCode, Failure> {
        let size = size();
        let request = TerminalRequest {
            command: (!self.command.is_empty()).then(|| shell_words::to_command(&self.command)),
            workdir: self.workdir,
            user: self.user,
            columns: size.map(|(columns, _)| columns),
            rows: size.map(|(_, rows)| rows),
        };
        let (mut shown, typed) = client.terminal(self.id, &request).await?;
        let _raw = RawMode::enter();
        let typing = tokio::spawn(pass_on_what_is_typed(typed));
        let mut code = 1;
        while let Some(event) = shown.next().await? {
            match event {
                TerminalEvent::Data(data) => {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(&data).and_then(|()| stdout.flush()).context("standard output")?;
                }
                TerminalEvent::Exit(exit) => {
                    code = exit.code;
                    break;
                }
            }
        }
        typing.abort();
        Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

/// Keys, and every new size of the window.
async fn pass_on_what_is_typed(mut typed: TerminalWriter) -> anyhow::Result<()> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 4096];
    loop {
        tokio::select! {
            read = stdin.read(&mut buffer) => match read? {
                // The end of a script is the end of a session, as typed.
                0 => return Ok(typed.send(bytes::Bytes::from_static(b"\x04")).await?),
                read => typed.send(bytes::Bytes::copy_from_slice(&buffer[..read])).await?,
            },
            Some(()) = resized.recv() => if let Some((columns, rows)) = size() {
                typed.resize(columns, rows).await?;
            },
        }
    }
}

fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Keys go to the workspace as they are, control keys too, until this is dropped.
struct RawMode(Termios);

impl RawMode {
    fn enter() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing more can be done for a terminal that is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
