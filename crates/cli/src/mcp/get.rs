//! `emergent mcp get`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;

use super::view;
use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Its name or id
    server: String,
}

impl Get {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        output.result(&client.mcp_server(&self.server).await?, view::details);
        Ok(ExitCode::SUCCESS)
    }
}
