//! `cargo xtask bench`: the benchmarks, in release mode.

use anyhow::{Result, bail};

use crate::repository::Repository;
use crate::test::{Readiness, make_machine_ready};

pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<bool> {
    if let Readiness::Missing(reason) | Readiness::Impossible(reason) = make_machine_ready(repository) {
        bail!("the bare alternatives are not here: {reason}");
    }
    let mut command = vec!["run", "--release", "--package", "bench", "--"];
    command.extend(arguments.iter().map(String::as_str));
    repository.run_cargo(&command)
}
