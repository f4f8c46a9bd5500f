//! `emergent mcp list`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;

use super::view;
use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct List {}

impl List {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let list = client.mcp_servers().await?;
        output.result(&list, |list| match list.items.as_slice() {
            [] => "there are no MCP servers".to_owned(),
            items => view::rows(items),
        });
        Ok(ExitCode::SUCCESS)
    }
}
