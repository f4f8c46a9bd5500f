//! `cargo xtask requirements`: which requirements have a passing test.
//!
//! ```text
//!   docs/requirements.md ───────┐
//!   `/// Proves:` in *.rs ──────┤
//!   target/xtask/junit/*.xml ───┼─► verdict ─► report, exit code
//!   docs/requirements.proven ───┘      └─ --update ─► docs/requirements.proven
//! ```

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

mod claims;
mod document;
mod verdict;

use crate::junit::{self, TestCase};
use crate::repository::{Package, Repository};
use crate::test::{TIERS, Tests};
use claims::Claim;
use verdict::Facts;

const DOCUMENT: &str = "docs/requirements.md";
const PROVEN: &str = "docs/requirements.proven";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail when a tier that has tests left no results, instead of leaving its ids unjudged
    #[arg(long)]
    require_results: bool,
    /// Write the ids that are proven now into docs/requirements.proven
    #[arg(long)]
    update: bool,
}

pub(crate) fn run(repository: &Repository, options: &Options) -> Result<bool> {
    let requirements = document::parse(&repository.read(DOCUMENT)?).with_context(|| DOCUMENT.to_owned())?;
    let (claims, mut problems) = find_claims(repository)?;
    let (cases, tiers_without_results) = read_results(repository)?;
    if cases.is_empty() {
        bail!("there are no test results in {}: run `cargo xtask test` first", junit::FOLDER);
    }
    let missing = tiers_without_results.join(", ");
    if (options.require_results || options.update) && !missing.is_empty() {
        bail!("there are no results of the tiers {missing}: run `cargo xtask test` first");
    }

    let proven_before: BTreeSet<String> = repository.read(PROVEN)?.lines().map(str::to_owned).collect();
    let facts = Facts {
        requirements: &requirements,
        claims: &claims,
        cases: &cases,
        tiers_without_results: &tiers_without_results,
        proven_before: &proven_before,
    };
    let mut verdict = verdict::judge(&facts);
    if options.update {
        let list: String = verdict.proven.keys().map(|id| format!("{id}\n")).collect();
        fs::write(repository.path(PROVEN), list).with_context(|| format!("cannot write {PROVEN}"))?;
        let proven_now = verdict.proven.keys().cloned().collect();
        verdict = verdict::judge(&Facts { proven_before: &proven_now, ..facts });
    }
    problems.append(&mut verdict.problems);

    print!("{}", verdict::report(&requirements, &verdict));
    if !missing.is_empty() {
        println!("not judged, because there are no results of the tiers {missing}:");
        verdict.unjudged.iter().for_each(|what| println!("  {what}"));
    }
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    Ok(problems.is_empty())
}

fn find_claims(repository: &Repository) -> Result<(Vec<Claim>, Vec<String>)> {
    let packages = repository.metadata()?.packages;
    let (mut claims, mut problems) = (Vec::new(), Vec::new());
    for file in repository.files()?.iter().filter(|file| file.ends_with(".rs")) {
        let package = package_of(repository, &packages, file);
        let (found, wrong) = claims::scan(file, &repository.read(file)?, package);
        claims.extend(found);
        problems.extend(wrong);
    }
    Ok((claims, problems))
}

/// The package a file belongs to: the one with the deepest folder above it.
fn package_of<'a>(repository: &Repository, packages: &'a [Package], file: &str) -> &'a str {
    let path = repository.path(file);
    let folders = packages.iter().filter_map(|package| {
        let folder = package.manifest_path.parent()?;
        path.starts_with(folder).then_some((folder.components().count(), package.name.as_str()))
    });
    folders.max().map_or("", |(_, name)| name)
}

/// The results of every tier, and the tiers that have tests and left none.
fn read_results(repository: &Repository) -> Result<(Vec<TestCase>, Vec<String>)> {
    let (mut cases, mut missing) = (Vec::new(), Vec::new());
    for tier in TIERS.iter().filter(|tier| matches!(tier.tests, Tests::Selected(_))) {
        let name = tier.name.to_string();
        let path = repository.path(junit::file_of(&name));
        if path.exists() {
            cases.extend(junit::read(&path)?);
        } else {
            missing.push(name);
        }
    }
    Ok((cases, missing))
}
