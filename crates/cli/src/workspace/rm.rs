//! `emergent workspace rm`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Which
    #[arg(required = true)]
    ids: Vec<WorkspaceId>,
}

impl Rm {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let destroy = async |id| {
            output.result(&client.destroy(id).await?, |destroyed| destroyed.id.to_string());
            Ok(())
        };
        Ok(output.each(self.ids, destroy).await)
    }
}
