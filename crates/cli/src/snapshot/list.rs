//! `emergent snapshot list`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, Snapshot, SnapshotList};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::{Output, table};
use crate::workspace::view::minute;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those of this workspace
    #[arg(long)]
    workspace: Option<WorkspaceId>,
}

impl List {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let mut items = Vec::new();
        let mut cursor = None;
        loop {
            let page = client.snapshots(self.workspace, cursor.as_deref()).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        output.result(&SnapshotList { items, next_cursor: None }, |list| rows(&list.items));
        Ok(ExitCode::SUCCESS)
    }
}

fn rows(snapshots: &[Snapshot]) -> String {
    let row = |snapshot: &Snapshot| {
        vec![
            snapshot.id.to_string(),
            snapshot.status.clone(),
            snapshot.provider.to_string(),
            snapshot.workspace_id.to_string(),
            minute(snapshot.created_at),
            snapshot.name.clone().unwrap_or_default(),
        ]
    };
    table(&["ID", "STATUS", "PROVIDER", "WORKSPACE", "CREATED", "NAME"], snapshots.iter().map(row))
}
