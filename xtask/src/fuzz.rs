//! `cargo xtask fuzz`: every fuzz target for a while. What breaks one is kept in `fuzz/artifacts`.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repository::Repository;

/// Known to work with the targets.
const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// The targets, as in `fuzz/Cargo.toml`.
const TARGETS: [&str; 4] = ["protocol", "answers", "edit", "paths"];

/// No input needs more memory than this.
const MEMORY_MIB: u32 = 2048;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only this target; may be given several times
    #[arg(long = "target", value_name = "NAME", value_parser = TARGETS)]
    targets: Vec<String>,
    /// How long each of them runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(repository: &Repository, options: &Options) -> Result<bool> {
    let tools = repository.path("target/tools");
    let cargo_fuzz = tools.join("bin/cargo-fuzz");
    if !cargo_fuzz.is_file() {
        println!("cargo-fuzz is missing: installing it");
        let installed = repository
            .cargo(&[
                "install",
                "cargo-fuzz",
                "--version",
                CARGO_FUZZ_VERSION,
                "--locked",
                "--debug",
                "--root",
            ])
            .arg(&tools)
            .status()
            .context("cannot start cargo install")?;
        if !installed.success() {
            bail!("cargo-fuzz could not be installed");
        }
    }
    let mut succeeded = true;
    for target in TARGETS {
        if !options.targets.is_empty() && !options.targets.iter().any(|named| named == target) {
            continue;
        }
        println!("\n── {target}, {} seconds ──", options.seconds);
        let status = Command::new(&cargo_fuzz)
            .args(["fuzz", "run", target, "--"])
            .arg(format!("-max_total_time={}", options.seconds))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .current_dir(repository.path("."))
            .env("RUSTUP_TOOLCHAIN", "nightly")
            // Those of the outer cargo would lead to its own compiler.
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .status()
            .context("cannot start cargo-fuzz")?;
        succeeded &= status.success();
    }
    Ok(succeeded)
}
