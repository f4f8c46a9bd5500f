//! `emergent mcp logs`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, McpLogLine};

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Its name or id
    server: String,
    /// Go on with what comes
    #[arg(long, short)]
    follow: bool,
    /// The last so many lines
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<u32>,
}

impl Logs {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        if !self.follow {
            let log = client.mcp_server_logs(&self.server, self.tail).await?;
            output.list(&log, "it has written nothing", |log| {
                log.lines.iter().map(|line| shown(line, output)).collect()
            });
            return Ok(ExitCode::SUCCESS);
        }
        let mut log = client.follow_mcp_server_logs(&self.server, self.tail).await?;
        while let Some(line) = log.next().await? {
            match output.is_json() {
                true => output.json_line(&line),
                false => output.line(&shown(&line, output)),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What the program itself wrote is shown as it is; the rest says where it comes from.
fn shown(line: &McpLogLine, output: Output) -> String {
    let text = output.content(&line.text);
    match line.stream.as_str() {
        "stderr" | "stdout" => text,
        stream => format!("[{stream}] {text}"),
    }
}
