//! `emergent workspace write`

use std::io::Cursor;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use emergent_client::{Client, Upload, WriteAnswer, WriteRequest};
use emergent_types::WorkspaceId;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::local_file;
use crate::exit::Failure;
use crate::output::Output;

/// So much is one call; well below what a body may have, also as base64.
const MAX_CALL_BYTES: u64 = 1 << 20;

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
        let written = match &self.from {
            Some(file) => {
                let opened = local_file::open(file).await?;
                let size = Some(opened.size);
                send(client, self.id, Upload { path: self.path, size, mode: None }, opened.content).await?
            }
            None => {
                let upload = Upload { path: self.path, ..Upload::default() };
                send(client, self.id, upload, tokio::io::stdin()).await?
            }
        };
        output.result(&written, |written| format!("{} bytes", written.bytes_written));
        Ok(ExitCode::SUCCESS)
    }
}

/// What is little is a call of the tool; the rest goes the way of files of any size.
async fn send(
    client: &Client,
    id: WorkspaceId,
    upload: Upload,
    mut content: impl AsyncRead + Send + Unpin + 'static,
) -> Result<WriteAnswer, Failure> {
    let mut first = Vec::new();
    (&mut content)
        .take(MAX_CALL_BYTES + 1)
        .read_to_end(&mut first)
        .await
        .context("cannot read the content")?;
    if first.len() as u64 > MAX_CALL_BYTES {
        return Ok(client.upload(id, &upload, Cursor::new(first).chain(content)).await?);
    }
    Ok(match String::from_utf8(first) {
        Ok(content) => client.write(id, &WriteRequest { file_path: upload.path, content }).await?,
        Err(bytes) => client.write_base64(id, &upload.path, &STANDARD.encode(bytes.as_bytes())).await?,
    })
}
