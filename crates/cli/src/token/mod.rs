//! `emergent token`: one file a command.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

use clap::Subcommand;

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::Output;

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown this once
    Create(create::Create),
    /// List tokens, newest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Revoke tokens, with those that were made with them
    #[command(visible_alias = "rm")]
    Revoke(revoke::Revoke),
}

/// Runs one command against the server.
pub(crate) fn run(
    common: &CommonArguments,
    command: TokenCommand,
    output: Output,
) -> Result<ExitCode, Failure> {
    connection::run(common, async |client| match command {
        TokenCommand::Create(command) => command.run(&client, output).await,
        TokenCommand::List(command) => command.run(&client, output).await,
        TokenCommand::Revoke(command) => command.run(&client, output).await,
    })
}
