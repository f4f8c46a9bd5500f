//! `emergent token create`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, CreateToken};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// For people: what it is for
    name: String,
    /// What it allows: admin (everything), user (makes workspaces, sees and uses its own), read_only,
    /// session (the tools of one workspace), e2b (a user in the form of the E2B SDKs)
    #[arg(long, value_parser = ["admin", "user", "read_only", "session", "e2b"])]
    kind: String,
    /// How long it is valid; for ever where not said
    #[arg(long, value_name = "SECONDS")]
    expires_in: Option<u64>,
    /// The workspace of a session
    #[arg(long, value_name = "ID", required_if_eq("kind", "session"))]
    workspace: Option<WorkspaceId>,
    /// A tool of a session; may be repeated; all where not said
    #[arg(long = "tool", value_name = "NAME", requires = "workspace")]
    tools: Vec<String>,
    /// A hosted MCP server that it may use; may be repeated
    #[arg(long = "mcp-server", value_name = "NAME")]
    mcp_servers: Vec<String>,
}

impl Create {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let request = CreateToken {
            name: self.name,
            kind: self.kind,
            expires_in_seconds: self.expires_in,
            workspace_id: self.workspace,
            tools: (!self.tools.is_empty()).then_some(self.tools),
            mcp_servers: (!self.mcp_servers.is_empty()).then_some(self.mcp_servers),
        };
        let made = client.create_token(&request).await?;
        output.result(&made, |made| made.token.clone());
        output.hint(&format!("its id is {}; the token itself is not shown again", made.about.id));
        Ok(ExitCode::SUCCESS)
    }
}
