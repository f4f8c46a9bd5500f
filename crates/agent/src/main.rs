//! `emergent-agent`: what it is depends on its first argument.

mod arguments;

use std::process::ExitCode;

use arguments::Mode;
use emergent_agent::{copy, init, measure, probe, relay};

fn main() -> ExitCode {
    let outcome = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(Mode::Init(options)) => init::run(&options).map_err(|error| error.to_string()),
        Ok(Mode::Serve(options)) => {
            // Init starts it as /proc/self/exe. Under gVisor nothing but its name tells it what is its own
            // among the processes that it has not started, such as relays.
            let _ = rustix::thread::set_name(c"emergent-agent");
            init::run_agent(options).map_err(|error| error.to_string())
        }
        Ok(Mode::Relay { socket }) => relay::run(&socket)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("{}: {error}", socket.display())),
        Ok(Mode::Measure { folders }) => {
            let found = measure::measure(&folders);
            let elsewhere = measure::written_to_root().map_or_else(String::new, |bytes| format!(" {bytes}"));
            println!("{} {} {}{elsewhere}", found.bytes, found.files, u8::from(found.uncounted));
            Ok(ExitCode::SUCCESS)
        }
        Ok(Mode::Copy { pairs }) => copy_all(&pairs),
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

/// Says what came of it in one word, for whoever started this.
fn copy_all(pairs: &[(std::path::PathBuf, std::path::PathBuf)]) -> Result<ExitCode, String> {
    for (from, to) in pairs {
        if let Err(error) = copy::copy(from, to) {
            println!("{}", if error.is_out_of_space() { "full" } else { "failed" });
            return Err(error.to_string());
        }
    }
    println!("copied");
    Ok(ExitCode::SUCCESS)
}
