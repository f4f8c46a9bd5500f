//! `emergent workspace list`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, ListWorkspaces, WorkspaceList};
use emergent_types::{ProviderKind, WorkspaceStatus};

use super::view;
use crate::exit::Failure;
use crate::named_value::one_of;
use crate::output::Output;

/// The largest page a server gives.
const PAGE: u32 = 500;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those in this state
    #[arg(long, value_parser = one_of::<WorkspaceStatus>(WorkspaceStatus::ALL.iter().map(|status| status.as_str())))]
    status: Option<WorkspaceStatus>,
    /// Only those of this provider
    #[arg(long, value_parser = one_of::<ProviderKind>(ProviderKind::ALL.iter().map(|kind| kind.as_str())))]
    provider: Option<ProviderKind>,
    /// This many at most; all where not said
    #[arg(long)]
    limit: Option<usize>,
}

impl List {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let list = self.collect(client).await?;
        output.result(&list, |list| match list.items.as_slice() {
            [] => "there are no workspaces".to_owned(),
            items => view::rows(items),
        });
        Ok(ExitCode::SUCCESS)
    }

    async fn collect(&self, client: &Client) -> Result<WorkspaceList, Failure> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut cursor = None;
        while found.len() < limit {
            // No more than is shown, so that the cursor says where the rest begins.
            let wanted = u32::try_from(limit - found.len()).unwrap_or(u32::MAX);
            let page = client
                .list(&ListWorkspaces {
                    status: self.status,
                    provider: self.provider,
                    limit: Some(wanted.min(PAGE)),
                    cursor: cursor.take(),
                    ..ListWorkspaces::default()
                })
                .await?;
            found.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(WorkspaceList { items: found, next_cursor: cursor })
    }
}
