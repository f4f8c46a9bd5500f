//! `emergent workspace restore`

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, RestoreWorkspace};
use emergent_types::SnapshotId;
use serde_json::Map;

use super::create::pair;
use super::view;
use crate::exit::Failure;
use crate::output::Output;
use crate::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The snapshot
    snapshot: SnapshotId,

    /// An environment variable of everything that runs in it; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,

    /// Print nothing but the id
    #[arg(short, long)]
    quiet: bool,
}

impl Restore {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let request = RestoreWorkspace {
            snapshot_id: self.snapshot,
            resource_limits: None,
            network: None,
            env: BTreeMap::from_iter(self.env),
            ttl_seconds: None,
            metadata: Map::new(),
        };
        let workspace = {
            let _waiting = Progress::waiting(output, "restoring a workspace");
            client.restore(&request).await?
        };
        match self.quiet {
            true => output.line(&workspace.id.to_string()),
            false => output.result(&workspace, view::details),
        }
        Ok(ExitCode::SUCCESS)
    }
}
