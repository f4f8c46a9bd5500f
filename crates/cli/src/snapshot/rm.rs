//! `emergent snapshot rm`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use emergent_types::SnapshotId;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Which
    #[arg(required = true)]
    ids: Vec<SnapshotId>,
}

impl Rm {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let delete = async |id| {
            output.result(&client.delete_snapshot(id).await?, |deleted| deleted.id.to_string());
            Ok(())
        };
        Ok(output.each(self.ids, delete).await)
    }
}
