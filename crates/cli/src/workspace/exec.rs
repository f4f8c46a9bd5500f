//! `emergent workspace exec`

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use emergent_client::{BashRequest, Client, CommandEvent, CommandStream, FinishedCommand};
use emergent_types::WorkspaceId;

use super::create::pair;
use crate::exit::Failure;
use crate::output::Output;
use crate::shell_words;

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Where
    id: WorkspaceId,
    /// The folder to run it in
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// After this it is killed, such as 30 or 0.5
    #[arg(long, value_name = "SECONDS", value_parser = milliseconds)]
    timeout: Option<u64>,
    /// An environment variable; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The account to run it as
    #[arg(long)]
    user: Option<String>,
    /// Let it go on by itself, and print its process id
    #[arg(long, conflicts_with = "timeout")]
    background: bool,
    /// The command: a single word is given to the shell as it is; several are a program with
    /// its arguments, which no shell looks into
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

impl Exec {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let request = BashRequest {
            command: shell_words::to_command(&self.command),
            workdir: self.workdir,
            timeout_ms: self.timeout,
            env: BTreeMap::from_iter(self.env),
            user: self.user,
        };
        if self.background {
            let started = client.bash_in_background(self.id, &request).await?;
            output.result(&started, |started| started.process_id.to_string());
            return Ok(ExitCode::SUCCESS);
        }
        let finished = if output.is_json() {
            let finished = client.bash(self.id, &request).await?;
            output.result(&finished, |_| String::new());
            finished
        } else {
            show_while_it_runs(client.exec_stream(self.id, &request).await?, output).await?
        };
        note_unusual(&finished, output);
        Ok(exit_code(finished.exit_code))
    }
}

/// Passes on what a command prints as it comes, all of it.
async fn show_while_it_runs(mut events: CommandStream, output: Output) -> Result<FinishedCommand, Failure> {
    while let Some(event) = events.next().await? {
        match event {
            CommandEvent::Started => {}
            CommandEvent::Stdout(text) => output.passed_on(&text, ""),
            CommandEvent::Stderr(text) => output.passed_on("", &text),
            CommandEvent::Exit(finished) => return Ok(*finished),
        }
    }
    Err(anyhow!("the server ended the answer before the command had ended").into())
}

/// What the exit code alone does not tell.
fn note_unusual(finished: &FinishedCommand, output: Output) {
    if output.is_json() {
        return;
    }
    if finished.timed_out {
        output.note("emergent: the command was killed because its time was up");
    }
    if finished.oom_killed {
        output.note("emergent: the workspace ran out of memory");
    }
}

/// Seconds, as so many milliseconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let refused = || format!("{text:?} is not a number of seconds, such as 30 or 0.5");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return Err(refused());
    }
    let whole: u64 = whole.parse().map_err(|_| refused())?;
    let part: u64 = format!("{part:0<3}").parse().map_err(|_| refused())?;
    Ok(whole.saturating_mul(1000).saturating_add(part))
}

/// The command's own code. What does not fit into a byte is a failure all the same.
fn exit_code(code: i32) -> ExitCode {
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_parts() {
        for (text, expect) in [("30", 30_000), ("0.5", 500), ("1.25", 1250), ("0.001", 1), ("007", 7000)] {
            assert_eq!(milliseconds(text), Ok(expect), "{text}");
        }
        for text in ["", "-1", ".5", "1.", "1e3", "0.0001", "1,5", "\u{664}", "99999999999999999999"] {
            assert!(milliseconds(text).unwrap_err().contains(text), "{text}");
        }
    }
}
