//! `emergent workspace read`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, ReadAnswer, ReadRequest};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::{Output, shown};

#[derive(Debug, Args)]
pub(crate) struct Read {
    /// Where
    id: WorkspaceId,
    /// A file or a folder; relative paths start at /workspace
    path: String,
    /// The line to begin with, counted from 1
    #[arg(long)]
    offset: Option<u64>,
    /// How many lines
    #[arg(long)]
    limit: Option<u64>,
}

impl Read {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let request = ReadRequest { file_path: self.path, offset: self.offset, limit: self.limit };
        let answer = client.read(self.id, &request).await?;
        output.list(&answer, "there is nothing in it", |answer| match answer {
            ReadAnswer::Text { content, .. } => output.contents(content),
            ReadAnswer::Directory { entries, .. } => entries.iter().map(|name| shown(name)).collect(),
            ReadAnswer::Binary { size, mime } => vec![format!("{}, {size} bytes", shown(mime))],
        });
        note_the_rest(&answer, output);
        Ok(ExitCode::SUCCESS)
    }
}

/// Where to go on.
fn note_the_rest(answer: &ReadAnswer, output: Output) {
    let (next, total, what) = match answer {
        ReadAnswer::Text { next_offset, total_lines, .. } => (next_offset, total_lines, "lines"),
        ReadAnswer::Directory { next_offset, total_entries, .. } => (next_offset, total_entries, "entries"),
        ReadAnswer::Binary { .. } => return,
    };
    if let (Some(next), false) = (next, output.is_json()) {
        output.note(&format!("there are {total} {what}; go on with --offset {next}"));
    }
}
