//! `emergent workspace ps`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, OutputStream, Process, ProcessList};
use emergent_types::WorkspaceId;

use super::view::minute;
use crate::exit::Failure;
use crate::output::{Output, is_command, table};

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Where
    id: WorkspaceId,
    /// Show what this process has printed
    process_id: Option<u64>,
    /// Go on until it has ended
    #[arg(short, long, requires = "process_id")]
    follow: bool,
    /// What it printed to standard error instead
    #[arg(long, requires = "process_id")]
    stderr: bool,
    /// Leave out so many bytes from the first one it ever printed
    #[arg(long, value_name = "BYTES", requires = "process_id", default_value_t = 0)]
    offset: u64,
    /// Send it this signal, such as TERM or KILL, instead
    #[arg(long, value_name = "NAME", requires = "process_id", conflicts_with_all = ["follow", "stderr"])]
    signal: Option<String>,
}

impl Ps {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        match (self.process_id, &self.signal) {
            (None, _) => {
                output.result(&client.processes(self.id).await?, rows);
            }
            (Some(process), Some(signal)) => {
                let signalled = client.signal_process(self.id, process, signal).await?;
                output.result(&signalled, |sent| format!("{} to {} processes", sent.signal, sent.delivered));
            }
            (Some(process), None) => self.show_output(client, process, output).await?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn show_output(&self, client: &Client, process: u64, output: Output) -> Result<(), Failure> {
        let stream = if self.stderr { OutputStream::Stderr } else { OutputStream::Stdout };
        let mut pages = client.follow_process(self.id, process, stream, self.offset, self.follow).await?;
        while let Some(page) = pages.next().await? {
            if output.is_json() {
                output.json_line(&page);
            } else {
                output.passed_on(&page.text, "");
            }
        }
        Ok(())
    }
}

fn rows(list: &ProcessList) -> String {
    if list.items.is_empty() {
        return "there are no background processes".to_owned();
    }
    let row = |process: &Process| {
        let ended = process.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        vec![
            process.process_id.to_string(),
            process.pid.to_string(),
            process.status.clone(),
            ended,
            minute(process.started_at),
            process.stdout_bytes.to_string(),
            process.stderr_bytes.to_string(),
            one_line(&process.command),
        ]
    };
    let head = ["ID", "PID", "STATUS", "EXIT", "STARTED", "STDOUT", "STDERR", "COMMAND"];
    table(&head, list.items.iter().map(row))
}

/// The beginning of a text, on one line.
pub(super) fn one_line(text: &str) -> String {
    const SHOWN: usize = 80;
    let flat: String = text.chars().map(|c| if is_command(c) { ' ' } else { c }).take(SHOWN + 1).collect();
    match flat.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}
