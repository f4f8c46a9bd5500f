//! `emergent workspace fork`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, Forks};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::Output;
use crate::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// Which
    id: WorkspaceId,

    /// How many
    #[arg(long, default_value_t = 1)]
    count: u32,
}

impl Fork {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let forks = {
            let _waiting = Progress::waiting(output, "forking a workspace");
            client.fork(self.id, self.count).await?
        };
        output.result(&forks, ids);
        Ok(ExitCode::SUCCESS)
    }
}

fn ids(forks: &Forks) -> String {
    forks.items.iter().map(|fork| fork.id.to_string()).collect::<Vec<_>>().join("\n")
}
