//! What measurements found, kept in files: one a measurement, and the page made of all of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::measure::Measurement;
use crate::report::{Outcome, Report};

/// A page of these alone.
pub(crate) fn page(outcomes: Vec<(Measurement, Outcome)>) -> String {
    let outcomes = outcomes.into_iter().map(|(measurement, outcome)| (measurement.to_string(), outcome));
    Report { outcomes: outcomes.collect() }.to_markdown()
}

/// Writes a page of these alone.
pub(crate) fn write_page(outcomes: Vec<(Measurement, Outcome)>, file: &Path) -> Result<()> {
    let page = page(outcomes);
    print!("{page}");
    fs::write(file, page).with_context(|| file.display().to_string())?;
    eprintln!("written to {}", file.display());
    Ok(())
}

/// Keeps these instead of what was found before, and writes the page of all that is kept.
pub(crate) fn keep(outcomes: Vec<(Measurement, Outcome)>) -> Result<()> {
    fs::create_dir_all(bench_folder().join("results"))?;
    for (measurement, outcome) in outcomes {
        let file = file_of(measurement);
        let text = serde_json::to_string_pretty(&outcome)? + "\n";
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    let mut kept = Vec::new();
    for measurement in Measurement::ALL {
        let file = file_of(measurement);
        if file.exists() {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let outcome = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
            kept.push((measurement, outcome));
        }
    }
    write_page(kept, &bench_folder().join("RESULTS.md"))
}

fn file_of(measurement: Measurement) -> PathBuf {
    bench_folder().join("results").join(format!("{measurement}.json"))
}

fn bench_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
