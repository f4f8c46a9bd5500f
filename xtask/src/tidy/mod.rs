//! `cargo xtask tidy`: the rules of this repository that no compiler knows, each with its reason.

use anyhow::Result;

mod direction;
mod markdown;
mod text;

use crate::repository::Repository;

/// A rule that is broken, ready to print: where, what, why.
pub(crate) type Violation = String;

pub(crate) fn run(repository: &Repository) -> Result<bool> {
    let files = repository.files()?;
    let metadata = repository.metadata()?;
    let mut violations = direction::check(&metadata.packages);

    for package in &metadata.packages {
        let manifest = std::fs::read_to_string(&package.manifest_path)?;
        violations.extend(text::manifest(&package.name, &manifest));
    }
    for file in &files {
        violations.extend(text::name(file));
        if text::is_read(file) {
            let content = repository.read(file)?;
            violations.extend(text::content(file, &content));
            violations.extend(markdown::check(file, &content, &|target| repository.path(target).exists()));
        }
    }

    for violation in &violations {
        eprintln!("{violation}");
    }
    if violations.is_empty() {
        println!(
            "tidy: {} files, {} packages, nothing to complain about",
            files.len(),
            metadata.packages.len()
        );
    } else {
        eprintln!("tidy: {} violations", violations.len());
    }
    Ok(violations.is_empty())
}
