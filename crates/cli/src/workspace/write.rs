//! `emergent workspace write`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, Upload};
use emergent_types::WorkspaceId;

use super::local_file;
use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Write {
    /// Where
    id: WorkspaceId,
    /// The file to write; relative paths start at /workspace
    path: String,
    /// Where the content comes from; standard input where not said
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

impl Write {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let upload = Upload { path: self.path, ..Upload::default() };
        let written = match self.from {
            Some(file) => {
                let opened = local_file::open(&file).await?;
                let upload = Upload { size: Some(opened.size), ..upload };
                client.upload(self.id, &upload, opened.content).await?
            }
            None => client.upload(self.id, &upload, tokio::io::stdin()).await?,
        };
        output.result(&written, |written| format!("{} bytes", written.bytes_written));
        Ok(ExitCode::SUCCESS)
    }
}
