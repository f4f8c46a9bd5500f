//! `emergent mcp`: one file a command.

mod add;
mod call;
mod get;
mod list;
mod logs;
mod restart;
mod rm;
mod view;

use std::process::ExitCode;

use clap::Subcommand;

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::Output;

/// What to do with hosted MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Host a server: `emergent mcp add memory -- node /workspace/server.js`
    Add(Box<add::Add>),
    /// List servers, oldest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show one server
    Get(get::Get),
    /// Show what a server wrote to stderr, and what happened to it
    Logs(logs::Logs),
    /// Call a tool of a server, or any other method
    Call(call::Call),
    /// End a server's program and start it again
    Restart(restart::Restart),
    /// Remove servers with their sandboxes
    #[command(visible_alias = "delete")]
    Rm(rm::Rm),
}

/// Runs one command against the server.
pub(crate) fn run(
    common: &CommonArguments,
    command: McpCommand,
    output: Output,
) -> Result<ExitCode, Failure> {
    connection::run(common, async |client| match command {
        McpCommand::Add(command) => command.run(&client, output).await,
        McpCommand::List(command) => command.run(&client, output).await,
        McpCommand::Get(command) => command.run(&client, output).await,
        McpCommand::Logs(command) => command.run(&client, output).await,
        McpCommand::Call(command) => command.run(&client, output).await,
        McpCommand::Restart(command) => command.run(&client, output).await,
        McpCommand::Rm(command) => command.run(&client, output).await,
    })
}
