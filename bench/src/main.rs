//! `cargo xtask bench`: what the product costs, beside what the same costs without it.
//!
//! One run measures both sides in turn on the same machine and writes one page. A figure that
//! was not measured in the run is not on the page, and a target is a ratio wherever there is
//! a bare alternative: a ratio means the same on every machine.
//!
//! ```text
//!  Measurement ──► bench (this process) ──HTTP──► emergent serve ──► sandboxes
//!       │            └── bare alternative: mkfs, mount, libcontainer, bash -c true, dd
//!       └──► Section: rows, breakdowns ──► Report ──► RESULTS.md
//! ```

mod bare;
mod bench;
mod figure;
mod http;
mod machine;
mod measure;
mod memory;
mod report;
mod server;
mod stats;
mod subprograms;
mod workspace;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::bench::{Bench, build_server};
use crate::machine::Machine;
use crate::measure::Measurement;
use crate::report::Report;
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
    /// Where to write the page. A complete run writes bench/RESULTS.md, any other none.
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
    let emergent = match &arguments.emergent {
        Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
        None => build_server()?,
    };
    // Not private: a container's root user, who is nobody here, must reach its root.
    let work_dir = tempfile::Builder::new()
        .prefix("emergent-bench-")
        .permissions(fs::Permissions::from_mode(0o711))
        .tempdir_in(&arguments.work_dir)?;
    let mut machine = Machine::observe(work_dir.path(), arguments.emergent.is_none())?;
    let bench = Bench { emergent, work_dir: work_dir.path().to_owned(), quick: arguments.quick };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    let wanted =
        |measurement: &Measurement| arguments.only.is_empty() || arguments.only.contains(measurement);
    let mut sections = Vec::new();
    for measurement in Measurement::ALL.into_iter().filter(wanted) {
        eprintln!("measuring {measurement} …");
        let section = runtime.block_on(measurement.run(&bench));
        sections.push(section.with_context(|| format!("measuring {measurement}"))?);
    }
    machine.observe_end()?;
    let report = Report { machine, sections };
    let page = report.to_markdown();
    print!("{page}");

    let complete = !arguments.quick && arguments.only.is_empty();
    let results = || Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md");
    if let Some(file) = arguments.out.clone().or_else(|| complete.then(results)) {
        fs::write(&file, page).with_context(|| file.display().to_string())?;
        eprintln!("written to {}", file.display());
    }
    Ok(())
}
