//! `emergent snapshot`: one file a command. `emergent workspace snapshot` makes them.

mod list;
mod rm;

use std::process::ExitCode;

use clap::Subcommand;

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::Output;

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// List snapshots, newest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Remove snapshots; workspaces made from them stay
    #[command(visible_alias = "delete")]
    Rm(rm::Rm),
}

/// Runs one command against the server.
pub(crate) fn run(
    common: &CommonArguments,
    command: SnapshotCommand,
    output: Output,
) -> Result<ExitCode, Failure> {
    connection::run(common, async |client| match command {
        SnapshotCommand::List(command) => command.run(&client, output).await,
        SnapshotCommand::Rm(command) => command.run(&client, output).await,
    })
}
