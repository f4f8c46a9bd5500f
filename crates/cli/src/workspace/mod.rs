//! `emergent workspace`: one file a command.

mod cp;
mod create;
mod edit;
mod exec;
mod fork;
mod get;
mod git;
mod glob;
mod grep;
mod history;
mod list;
mod local_file;
mod metrics;
mod ps;
mod read;
mod restore;
mod resume;
mod rm;
mod shell;
mod snapshot;
mod stop;
pub(crate) mod view;
mod write;

use std::process::ExitCode;

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
    /// Open a terminal in a workspace
    Shell(shell::Shell),
    /// Show a page of a file, or what is in a folder
    Read(read::Read),
    /// Replace a file with what comes from standard input or a file
    Write(write::Write),
    /// Replace a text in a file
    Edit(edit::Edit),
    /// Find files by their path, newest first
    Glob(glob::Glob),
    /// Find lines that match a regular expression
    Grep(grep::Grep),
    /// Look at a repository, commit, switch branches
    Git(git::Git),
    /// Copy files and folders into a workspace, or out of it
    Cp(cp::Cp),
    /// List background processes, show their output, signal them
    Ps(ps::Ps),
    /// Show what a workspace uses
    #[command(visible_alias = "stats")]
    Metrics(metrics::Metrics),
    /// Show what was done in a workspace, newest first
    History(history::History),
    /// End what runs in a workspace and keep its files
    Stop(stop::Stop),
    /// Start a stopped workspace again
    Resume(resume::Resume),
    /// Copy the files of a workspace as they are now
    Snapshot(snapshot::Snapshot),
    /// Make a workspace from a snapshot and wait until it is ready
    Restore(restore::Restore),
    /// Make workspaces that have the files of this one as they are now
    Fork(fork::Fork),
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
    connection::run(common, async |client| match command {
        WorkspaceCommand::Create(command) => command.run(&client, output).await,
        WorkspaceCommand::List(command) => command.run(&client, output).await,
        WorkspaceCommand::Get(command) => command.run(&client, output).await,
        WorkspaceCommand::Exec(command) => command.run(&client, output).await,
        WorkspaceCommand::Shell(command) => command.run(&client, output).await,
        WorkspaceCommand::Read(command) => command.run(&client, output).await,
        WorkspaceCommand::Write(command) => command.run(&client, output).await,
        WorkspaceCommand::Edit(command) => command.run(&client, output).await,
        WorkspaceCommand::Glob(command) => command.run(&client, output).await,
        WorkspaceCommand::Grep(command) => command.run(&client, output).await,
        WorkspaceCommand::Git(command) => command.run(&client, output).await,
        WorkspaceCommand::Cp(command) => command.run(&client, output).await,
        WorkspaceCommand::Ps(command) => command.run(&client, output).await,
        WorkspaceCommand::Metrics(command) => command.run(&client, output).await,
        WorkspaceCommand::History(command) => command.run(&client, output).await,
        WorkspaceCommand::Stop(command) => command.run(&client, output).await,
        WorkspaceCommand::Resume(command) => command.run(&client, output).await,
        WorkspaceCommand::Snapshot(command) => command.run(&client, output).await,
        WorkspaceCommand::Restore(command) => command.run(&client, output).await,
        WorkspaceCommand::Fork(command) => command.run(&client, output).await,
        WorkspaceCommand::Rm(command) => command.run(&client, output).await,
    })
}
