//! `emergent token revoke`

use std::process::ExitCode;

use clap::Args;
use emergent_client::Client;
use uuid::Uuid;

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Their ids, not the tokens themselves
    #[arg(required = true)]
    ids: Vec<Uuid>,
}

impl Revoke {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let revoke = async |id: Uuid| {
            output.result(&client.revoke_token(&id.to_string()).await?, |token| token.id.clone());
            Ok(())
        };
        Ok(output.each(self.ids, revoke).await)
    }
}
