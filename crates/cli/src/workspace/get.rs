//! `emergent workspace get`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use emergent_types::WorkspaceId;

use super::view;
use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Which
    id: WorkspaceId,
}

impl Get {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        output.result(&client.workspace(self.id).await?, view::details);
        Ok(ExitCode::SUCCESS)
    }
}
