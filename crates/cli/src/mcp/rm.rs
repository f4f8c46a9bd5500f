//! `emergent mcp rm`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Names or ids
    #[arg(required = true)]
    servers: Vec<String>,
    /// Remove their volumes as well, with everything in them
    #[arg(long)]
    volumes: bool,
}

impl Rm {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let delete = async |server: String| {
            let deleted = client.delete_mcp_server(&server, self.volumes).await?;
            output.result(&deleted, |deleted| deleted.name.clone());
            Ok(())
        };
        Ok(output.each(self.servers, delete).await)
    }
}
