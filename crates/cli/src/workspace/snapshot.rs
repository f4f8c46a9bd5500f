//! `emergent workspace snapshot`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// Which
    id: WorkspaceId,

    /// What to call it
    #[arg(long)]
    name: Option<String>,
}

impl Snapshot {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let taken = client.snapshot(self.id, self.name.as_deref()).await?;
        output.result(&taken, |taken| taken.id.to_string());
        Ok(ExitCode::SUCCESS)
    }
}
