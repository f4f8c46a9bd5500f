//! `emergent image`: one file a command. They talk to Docker, or put images into the data folder, and not to the server.

mod build;
mod interrupt;
mod rights;

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;

use crate::arguments::CommonArguments;
use crate::exit::Failure;
use crate::output::Output;

/// What to do with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Make the image that workspaces start from, of Debian packages alone
    Build(build::Build),
}

/// Runs one command.
pub(crate) fn run(
    command: ImageCommand,
    common: &CommonArguments,
    output: Output,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            ImageCommand::Build(command) => command.run(common, output).await,
        }
    })
}
