//! `emergent-agent`: what it is depends on its first argument.

mod arguments;

use std::process::ExitCode;

use arguments::Mode;
use emergent_agent::{init, measure, probe, relay};

fn main() -> ExitCode {
    let outcome = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(Mode::Init(options)) => init::run(&options).map_err(|error| error.to_string()),
        Ok(Mode::Serve(options)) => init::run_agent(options).map_err(|error| error.to_string()),
        Ok(Mode::Relay { socket }) => relay::run(&socket)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("{}: {error}", socket.display())),
        Ok(Mode::Measure { folders }) => {
            let found = measure::measure(&folders);
            println!("{} {} {}", found.bytes, found.files, u8::from(found.uncounted));
            Ok(ExitCode::SUCCESS)
        }
        Ok(Mode::Probe { targets }) => {
            for target in targets {
                println!("{target} {}", if probe::reaches(&target) { "reached" } else { "closed" });
            }
            Ok(ExitCode::SUCCESS)
        }
        Ok(Mode::Version) => {
            println!(
                "emergent-agent {} (protocol {})",
                env!("CARGO_PKG_VERSION"),
                emergent_protocol::GENERATION
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("emergent-agent: {error}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("emergent-agent: {error}");
        ExitCode::FAILURE
    })
}
