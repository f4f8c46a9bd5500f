//! The repository's own commands, so that what a person types, what continuous integration runs
//! and what the documentation says are the same thing. `cargo xtask help` lists them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod bench;
mod fuzz;
mod junit;
mod openapi;
mod repository;
mod requirements;
mod test;
mod tidy;

use repository::Repository;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about)]
enum Command {
    /// Build everything once, install what the test tiers need, and run them
    Test(test::Options),
    /// Check the rules that neither the compiler nor clippy knows
    Tidy,
    /// Compare docs/requirements.md with the results of the last test run
    Requirements(requirements::Options),
    /// Run the benchmarks in release mode
    Bench {
        /// Passed on to the benchmarks
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run every fuzz target for a while (needs a nightly compiler)
    Fuzz(fuzz::Options),
    /// Write openapi/v1.json from the code
    Openapi {
        /// Only compare, and fail when the committed document differs
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Without the backtrace: what went wrong is in the message.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the command found everything in order.
fn run(command: Command) -> Result<bool> {
    let repository = Repository::locate()?;
    match command {
        Command::Test(options) => test::run(&repository, &options),
        Command::Tidy => tidy::run(&repository),
        Command::Requirements(options) => requirements::run(&repository, &options),
        Command::Bench { arguments } => bench::run(&repository, &arguments),
        Command::Fuzz(options) => fuzz::run(&repository, &options),
        Command::Openapi { check } => openapi::run(&repository, check),
    }
}
