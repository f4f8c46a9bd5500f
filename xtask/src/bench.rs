//! `cargo xtask bench`: the benchmarks, in release mode.

use anyhow::Result;

use crate::repository::Repository;

pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<bool> {
    let mut command = vec!["run", "--release", "--package", "bench", "--"];
    command.extend(arguments.iter().map(String::as_str));
    repository.run_cargo(&command)
}
