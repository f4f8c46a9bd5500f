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

    /// Copy their files first
    #[arg(long)]
    snapshot: bool,

    /// Forget those whose provider the server does not have any more; what it has of them stays
    #[arg(long, conflicts_with = "snapshot")]
    force: bool,
}

impl Rm {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let destroy = async |id| {
            let destroyed = match (self.snapshot, self.force) {
                (true, _) => client.destroy_after_snapshot(id).await?,
                (false, true) => client.destroy_forced(id).await?,
                (false, false) => client.destroy(id).await?,
            };
            output.result(&destroyed, |destroyed| match destroyed.snapshot_id {
                Some(snapshot) => format!("{} snapshot {snapshot}", destroyed.id),
                None => match &destroyed.warning {
                    Some(warning) => format!("{}: {warning}", destroyed.id),
                    None => destroyed.id.to_string(),
                },
            });
            Ok(())
        };
        Ok(output.each(self.ids, destroy).await)
    }
}
