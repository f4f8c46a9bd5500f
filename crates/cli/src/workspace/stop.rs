//! `emergent workspace stop`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use emergent_types::WorkspaceId;

use super::view;
use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Which
    id: WorkspaceId,

    /// Let what runs stand still, with its memory, instead of ending it
    #[arg(long)]
    memory: bool,
}

impl Stop {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let stopped = match self.memory {
            true => client.suspend(self.id).await?,
            false => client.stop(self.id).await?,
        };
        output.result(&stopped, view::details);
        Ok(ExitCode::SUCCESS)
    }
}
