//! `cargo xtask bench`: what the product costs, beside what the same costs without it.
//!
//! One run measures both sides in turn on the same machine and writes one page. A figure that
//! was not measured in the run is not on the page, and a target is a ratio wherever there is
//! a bare alternative: a ratio means the same on every machine.
//!
//! ```text
//!  Measurement ──► bench (this process) ──HTTP──► emergent serve ──► sandboxes
//!       │            └── bare alternative: mkfs, mount, libcontainer, bash -c true, dd
//!       └──► Section: rows, breakdowns ──► Outcome ──► results/*.json ──► Report ──► RESULTS.md
//! ```
//!
//! A measurement can be run alone: the page then shows its new figures beside the last ones of the others,
//! each with its own date and commit.

mod bare;
mod bench;
mod figure;
mod http;
mod machine;
mod mcp;
mod measure;
mod memory;
mod nanoseconds;
mod report;
mod results;
mod server;
mod stats;
mod subprograms;
mod workspace;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::bench::{Bench, build_server};
use crate::machine::Machine;
use crate::measure::Measurement;
use crate::report::Outcome;
use crate::subprograms::Subprogram;

/// Measures the product beside the bare alternatives.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// A few repetitions only: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Measure this alone; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<Measurement>,
    /// Where to write a page of this run alone, instead of keeping what it finds in bench/.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A server to measure instead of building one.
    #[arg(long, value_name = "PROGRAM")]
    emergent: Option<PathBuf>,
    /// A folder on the file system to measure on.
    #[arg(long, value_name = "FOLDER", default_value = "/var/tmp")]
    work_dir: PathBuf,
}

fn main() -> ExitCode {
    if let Some(code) = Subprogram::run_if_asked() {
        return code;
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "sandboxes can only be made as root; run the benchmark as root"
    );
    let (emergent, commit) = match &arguments.emergent {
        Some(program) => (
            program.canonicalize().with_context(|| program.display().to_string())?,
            "unknown: the server was not built by this run".to_owned(),
        ),
        None => (build_server()?, machine::commit()?),
    };
    // Not private: a container's root user, who is nobody here, must reach its root.
    let work_dir = tempfile::Builder::new()
        .prefix("emergent-bench-")
        .permissions(fs::Permissions::from_mode(0o711))
        .tempdir_in(&arguments.work_dir)?;
    let bench = Bench { emergent, work_dir: work_dir.path().to_owned(), quick: arguments.quick };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    let wanted =
        |measurement: &Measurement| arguments.only.is_empty() || arguments.only.contains(measurement);
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for measurement in Measurement::ALL.into_iter().filter(wanted) {
        eprintln!("measuring {measurement} …");
        let machine = Machine::observe(work_dir.path(), &commit)?;
        // What one cannot measure is no reason to lose what others have.
        match runtime.block_on(measurement.run(&bench)) {
            Ok(section) => outcomes.push((measurement, Outcome { facts: machine.into_facts()?, section })),
            Err(error) => {
                eprintln!("measuring {measurement}: {error:?}");
                failed.push(measurement.to_string());
            }
        }
    }
    if let Some(file) = &arguments.out {
        results::write_page(outcomes, file)?;
    } else if arguments.quick || arguments.emergent.is_some() {
        print!("{}", results::page(outcomes));
    } else {
        results::keep(outcomes)?;
    }
    ensure!(failed.is_empty(), "could not be measured: {}", failed.join(", "));
    Ok(())
}
