//! `emergent workspace`: one file a command.

mod create;
mod exec;
mod get;
mod list;
mod resume;
mod rm;
mod stop;
mod view;

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::Output;

/// What to do with workspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Make a workspace and wait until it is ready
    Create(create::Create),
    /// List workspaces, newest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show one workspace
    #[command(visible_alias = "show")]
    Get(get::Get),
    /// Run a command in a workspace; exits as the command does
    Exec(exec::Exec),
    /// End what runs in a workspace and keep its files
    Stop(stop::Stop),
    /// Start a stopped workspace again
    Resume(resume::Resume),
    /// Remove workspaces with everything in them
    #[command(visible_aliases = ["delete", "destroy"])]
    Rm(rm::Rm),
}

/// Runs one command against the server.
pub(crate) fn run(
    common: &CommonArguments,
    command: WorkspaceCommand,
    output: Output,
) -> Result<ExitCode, Failure> {
    let client = connection::connect(common)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            WorkspaceCommand::Create(command) => command.run(&client, output).await,
            WorkspaceCommand::List(command) => command.run(&client, output).await,
            WorkspaceCommand::Get(command) => command.run(&client, output).await,
            WorkspaceCommand::Exec(command) => command.run(&client, output).await,
            WorkspaceCommand::Stop(command) => command.run(&client, output).await,
            WorkspaceCommand::Resume(command) => command.run(&client, output).await,
            WorkspaceCommand::Rm(command) => command.run(&client, output).await,
        }
    })
}
