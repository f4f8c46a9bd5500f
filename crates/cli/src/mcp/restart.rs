//! `emergent mcp restart`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use emergent_types::ServerHealth;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Names or ids
    #[arg(required = true)]
    servers: Vec<String>,
}

impl Restart {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let mut all_well = true;
        let restart = async |server: String| {
            let server = client.restart_mcp_server(&server).await?;
            all_well &= server.health == ServerHealth::Ok;
            output.result(&server, |server| format!("{} is {}", server.name, server.health));
            Ok(())
        };
        let code = output.each(self.servers, restart).await;
        match code == ExitCode::SUCCESS && !all_well {
            true => Ok(ExitCode::FAILURE),
            false => Ok(code),
        }
    }
}
