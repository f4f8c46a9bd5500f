//! `emergent workspace history`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{AuditEntry, AuditList, Client, ListAudit};
use emergent_types::WorkspaceId;
use serde_json::Value;

use super::ps::one_line;
use super::view::second;
use crate::exit::Failure;
use crate::output::{Output, table};

/// The largest page a server gives.
const PAGE: u32 = 500;

#[derive(Debug, Args)]
pub(crate) struct History {
    /// Of which workspace; it may be gone
    id: WorkspaceId,
    /// Only calls of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only calls that ended like this
    #[arg(long, value_parser = ["ok", "error", "cancelled", "interrupted", "running"])]
    outcome: Option<String>,
    /// This many at most
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

impl History {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let list = self.collect(client).await?;
        output.result(&list, |list| match list.items.as_slice() {
            [] => "nothing was done in it".to_owned(),
            items => rows(items),
        });
        Ok(ExitCode::SUCCESS)
    }

    async fn collect(&self, client: &Client) -> Result<AuditList, Failure> {
        let mut found = Vec::new();
        let mut cursor = None;
        while found.len() < self.limit {
            let wanted = u32::try_from(self.limit - found.len()).unwrap_or(u32::MAX);
            let request = ListAudit {
                workspace_id: Some(self.id),
                tool: self.tool.clone(),
                outcome: self.outcome.clone(),
                limit: Some(wanted.min(PAGE)),
                cursor: cursor.take(),
            };
            let page = client.audit(&request).await?;
            found.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(AuditList { items: found, next_cursor: cursor })
    }
}

fn rows(entries: &[AuditEntry]) -> String {
    let row = |entry: &AuditEntry| {
        vec![
            second(entry.at),
            entry.tool.clone(),
            match &entry.error_code {
                Some(code) => format!("{} ({code})", entry.outcome),
                None => entry.outcome.clone(),
            },
            entry.duration_ms.map_or_else(|| "-".to_owned(), |took| format!("{took} ms")),
            one_line(&summary(entry)),
        ]
    };
    table(&["TIME", "TOOL", "OUTCOME", "TOOK", "WHAT"], entries.iter().map(row))
}

fn summary(entry: &AuditEntry) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts = entry.summary.iter().map(|(name, value)| format!("{name}={}", text(value)));
    parts.collect::<Vec<_>>().join(" ")
}
