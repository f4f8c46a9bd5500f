//! `emergent`: the server, and the commands that talk to it.
//!
//! A thin program over the other crates. It reads arguments, environment and configuration
//! into one [`Settings`](settings::Settings), and is the only place that names concrete
//! providers. Commands reach a running server over HTTP and in no other way; `image` needs none and
//! talks to Docker.

mod alerts;
mod arguments;
mod connection;
mod doctor;
mod events;
mod exit;
mod first_process;
mod git_host;
mod image;
mod mcp;
mod mcp_stdio;
mod named_value;
mod output;
mod private_file;
mod progress;
mod serve;
mod settings;
mod shell_words;
mod snapshot;
mod token;
mod warm_pool;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::arguments::{Arguments, Command};
use crate::exit::Failure;
use crate::output::Output;

/// The hidden first argument under which this program starts itself to launch a sandbox.
const LOCAL_SANDBOX: &str = "__local-sandbox";

fn main() -> ExitCode {
    // First of all: the launch helper must run in a process that never had a second thread.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == LOCAL_SANDBOX) {
        return emergent_provider_local::helper::main();
    }
    let arguments = Arguments::parse();
    let output = Output::new(arguments.common.json);
    match run(arguments, output) {
        Ok(code) => code,
        Err(failure) => {
            output.failure(&failure);
            failure.exit_code()
        }
    }
}

fn run(arguments: Arguments, output: Output) -> Result<ExitCode, Failure> {
    let Arguments { common, command } = arguments;
    match command {
        Command::Serve(_) if first_process::is_so() => first_process::stand_before(),
        Command::Serve(serve) => serve::run(&common, &serve),
        Command::Workspace { command } => workspace::run(&common, command, output),
        Command::GitHost { command } => git_host::run(&common, command, output),
        Command::Token { command } => token::run(&common, command, output),
        Command::Mcp { command } => mcp::run(&common, command, output),
        Command::McpStdio(arguments) => arguments.run(&common),
        Command::Snapshot { command } => snapshot::run(&common, command, output),
        Command::WarmPool(arguments) => warm_pool::run(&common, &arguments, output),
        Command::Image { command } => image::run(command, &common, output),
        Command::Alerts => alerts::run(&common, output),
        Command::Events(follow) => follow.run(&common, output),
        Command::Doctor => doctor::run(&common, output),
        Command::Openapi => {
            let document = emergent_api::openapi_json().map_err(anyhow::Error::from)?;
            output.line(&document);
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "emergent", &mut script);
            output.passed_on(&String::from_utf8_lossy(&script), "");
            Ok(ExitCode::SUCCESS)
        }
    }
}
