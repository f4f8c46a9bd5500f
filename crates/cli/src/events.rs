//! `emergent events`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{FollowEvents, ServerEvent};
use emergent_types::WorkspaceId;
use serde_json::Value;

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::{Output, shown};

/// Follows what happens until the server ends it.
#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// Only these types, separated by commas, such as `workspace.*,alert.raised`
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Only what is about this workspace
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// Begin after the event of this id [default: with the next one]
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
    /// Show what has happened lately, and end
    #[arg(long)]
    recent: bool,
}

impl Follow {
    pub(crate) fn run(self, common: &CommonArguments, output: Output) -> Result<ExitCode, Failure> {
        connection::run(common, async |client| {
            let request = FollowEvents {
                types: self.types,
                workspace_id: self.workspace,
                after: self.after,
                follow: self.recent.then_some(false),
            };
            let mut events = client.follow_events(&request).await?;
            while let Some(event) = events.next().await? {
                if output.is_json() {
                    output.json_line(&event);
                } else {
                    output.line(&line(&event));
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn line(event: &ServerEvent) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let known = event.data.iter().filter(|(_, value)| !value.is_null());
    let parts = known.map(|(name, value)| format!("{name}={}", text(value)));
    let parts = parts.collect::<Vec<_>>().join(" ");
    // Messages may quote what somebody else chose.
    shown(&format!("{} {} {} {parts}", event.at, event.id, event.kind))
}
