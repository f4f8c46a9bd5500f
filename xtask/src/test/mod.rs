//! `cargo xtask test`: one build, then every tier that can run here, one after the other.
//!
//! ```text
//!   cargo build + nextest --no-run ──┐
//!                                    ├─► unit ─► store ─► local ─► … ─► table, sums
//!   apt-get (in the background) ─────┘    └─ target/xtask/junit/<tier>.xml
//! ```
//!
//! The tiers do not run side by side: several of them measure time, and on a small machine they
//! would measure each other.

use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

mod apt_sources;
mod beside;
mod machine;
mod node;
mod python;
mod summary;
mod tiers;

use crate::junit;
use crate::repository::Repository;
use beside::Beside;
pub(crate) use machine::Readiness;
use summary::{Outcome, Row};
use tiers::Tier;
pub(crate) use tiers::{TIERS, Tests, TierName};

/// Known to build with the toolchain this repository pins.
const NEXTEST_VERSION: &str = "0.9.143";
/// nextest's exit code for "tests ran and some failed"; all others but 0 are complaints.
const NEXTEST_TESTS_FAILED: i32 = 100;
/// How much more time `--long` gives.
const LONG_FACTOR: u32 = 10;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only this tier; may be given several times
    #[arg(long = "tier", value_name = "TIER")]
    tiers: Vec<TierName>,
    /// Let suites that repeat themselves (soak, chaos, properties) repeat ten times as often
    #[arg(long)]
    long: bool,
    /// Compile the tests and install what they need; run none
    #[arg(long, conflicts_with = "long")]
    build_only: bool,
}

pub(crate) fn run(repository: &Repository, options: &Options) -> Result<bool> {
    let ci = env::var_os("CI").is_some_and(|value| value == "true" || value == "1");
    let selected: Vec<&Tier> =
        TIERS.iter().filter(|tier| options.tiers.is_empty() || options.tiers.contains(&tier.name)).collect();

    let results = repository.path(junit::FOLDER);
    fs::create_dir_all(&results).with_context(|| format!("cannot make {}", results.display()))?;
    ensure_nextest(repository)?;
    let readiness = build_and_make_ready(repository, &selected)?;
    if options.build_only {
        return Ok(true);
    }
    for tier in &selected {
        // A result of an earlier run must not speak for this one.
        let _ = fs::remove_file(repository.path(junit::file_of(&tier.name.to_string())));
    }

    let mut rows = Vec::new();
    for (tier, readiness) in selected.iter().zip(readiness) {
        let outcome = match (&tier.tests, readiness) {
            (Tests::NotYet, _) => Outcome::NoTestsYet,
            (Tests::Selected(filter), Readiness::Ready) => {
                println!("\n── tier {} ──", tier.name);
                run_tier(repository, tier, filter, options.long)?
            }
            (Tests::Selected(filter), Readiness::Missing(reason)) => {
                Outcome::Skipped { tests: list_tests(repository, filter)?.len(), reason, possible_here: true }
            }
            (Tests::Selected(filter), Readiness::Impossible(reason)) => Outcome::Skipped {
                tests: list_tests(repository, filter)?.len(),
                reason,
                possible_here: false,
            },
        };
        rows.push(Row { tier: tier.name, outcome });
    }
    let strays = if options.tiers.is_empty() { list_tests(repository, &no_tier())? } else { Vec::new() };
    for stray in &strays {
        eprintln!("error: {stray} belongs to no tier; see xtask/src/test/tiers.rs");
    }
    print!("{}", summary::render(&rows, ci));
    Ok(strays.is_empty() && summary::succeeded(&rows, ci))
}

/// The filterset of the tests that no tier would ever run.
fn no_tier() -> String {
    let filters = TIERS.iter().filter_map(|tier| match tier.tests {
        Tests::Selected(filter) => Some(format!("({filter})")),
        Tests::NotYet => None,
    });
    format!("not ({})", filters.collect::<Vec<_>>().join(" | "))
}

/// Installs what the benchmarks compare with.
pub(crate) fn make_machine_ready(repository: &Repository) -> Readiness {
    let log = repository.path("target/xtask/packages.log");
    if let Some(folder) = log.parent().filter(|folder| !folder.exists()) {
        // Where it cannot be made, opening the log says why.
        let _ = fs::create_dir_all(folder);
    }
    let ready = machine::make_ready(&[&tiers::BENCH], &log).pop().unwrap_or(Readiness::Ready);
    packages_of_languages(repository, &tiers::BENCH, ready)
}

/// Installs what a tier has from PyPI and npm.
fn packages_of_languages(repository: &Repository, tier: &Tier, ready: Readiness) -> Readiness {
    node::make_ready(repository, tier, python::make_ready(repository, tier, ready))
}

/// Compiles and installs at the same time: one waits for the processor, the other for the network.
fn build_and_make_ready(repository: &Repository, tiers: &[&Tier]) -> Result<Vec<Readiness>> {
    let log = repository.path("target/xtask/packages.log");
    thread::scope(|scope| {
        let machine = scope.spawn(|| {
            let readiness = machine::make_ready(tiers, &log);
            tiers
                .iter()
                .zip(readiness)
                .map(|(tier, ready)| packages_of_languages(repository, tier, ready))
                .collect()
        });
        let built = build(repository);
        let readiness = machine.join().map_err(|_| anyhow!("making the machine ready panicked"))?;
        built.map(|()| readiness)
    })
}

fn build(repository: &Repository) -> Result<()> {
    repository.build_programs()?;
    if !repository.run_cargo(&["nextest", "run", "--no-run", "--workspace"])? {
        bail!("the tests do not build");
    }
    Ok(())
}

fn run_tier(repository: &Repository, tier: &Tier, filter: &str, long: bool) -> Result<Outcome> {
    let filter = match tier.only_long {
        Some(only_long) if !long => format!("({filter}) - ({only_long})"),
        _ => filter.to_owned(),
    };
    let profile = if long { "long" } else { "default" };
    let report = repository.path(format!("target/nextest/{profile}/junit.xml"));
    let _ = fs::remove_file(&report);

    let mut command =
        repository.cargo(&["nextest", "run", "--workspace", "--profile", profile, "--filterset", &filter]);
    if long {
        // Read by the suites that repeat themselves, and by proptest.
        command.env("EMERGENT_TEST_LONG", "1").env("PROPTEST_CASES", "2560");
    }
    if tier.second_tries > 0 {
        command.args(["--retries", "1"]);
    }
    let beside = tier.beside.map(|program| Beside::start(repository, program)).transpose()?;
    command.envs(beside.iter().flat_map(Beside::variables));
    let started = Instant::now();
    let status = command.status().context("cannot start cargo nextest")?;
    let took = started.elapsed();

    let cases = if report.exists() { junit::read(&report)? } else { Vec::new() };
    if report.exists() {
        let kept = repository.path(junit::file_of(&tier.name.to_string()));
        fs::copy(&report, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
    }
    let passed = cases.iter().filter(|case| case.passed).count();
    let failed = cases.len() - passed;
    let second_tries: Vec<String> = cases
        .iter()
        .filter(|case| case.second_try)
        .map(|case| format!("{} {}", case.binary, case.name))
        .collect();
    let complaint = match status.code() {
        _ if cases.is_empty() => Some("its filter selects no test, or no test could run".to_owned()),
        Some(0) if second_tries.len() > tier.second_tries => {
            Some(format!("{} tests needed a second try", second_tries.len()))
        }
        Some(0) => None,
        Some(NEXTEST_TESTS_FAILED) if failed > 0 => None,
        Some(code) => Some(format!("nextest ended with code {code}")),
        None => Some("nextest was killed".to_owned()),
    };
    let left_for_long = match tier.only_long {
        Some(only_long) if !long => list_tests(repository, only_long)?.len(),
        _ => 0,
    };
    Ok(Outcome::Ran {
        passed,
        failed,
        second_tries,
        left_for_long,
        took,
        budget: budget(tier, long),
        complaint,
    })
}

fn budget(tier: &Tier, long: bool) -> Duration {
    if long { tier.budget * LONG_FACTOR } else { tier.budget }
}

/// The tests a filterset selects, without running them.
fn list_tests(repository: &Repository, filter: &str) -> Result<Vec<String>> {
    let arguments = ["nextest", "list", "--workspace", "--message-format", "oneline", "--filterset", filter];
    let output = repository.cargo(&arguments).output().context("cannot start cargo nextest")?;
    if !output.status.success() {
        bail!("nextest cannot list the tests: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn ensure_nextest(repository: &Repository) -> Result<()> {
    let answers = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if answers(&mut repository.cargo(&["nextest", "--version"])) {
        return Ok(());
    }
    println!("cargo-nextest is missing: installing it");
    // Unoptimised, because it only starts and watches processes and is built in half the time.
    let installed = repository
        .cargo(&["install", "cargo-nextest", "--version", NEXTEST_VERSION, "--locked", "--debug"])
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status()
        .context("cannot start cargo install")?;
    if !installed.success() {
        bail!("cargo-nextest could not be installed; the tests need it");
    }
    Ok(())
}
