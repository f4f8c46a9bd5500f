//! What `runsc` says of itself, for people who want to know why something is not to be had.

use std::path::PathBuf;

use super::runsc::{Runsc, facts, find_runsc};
use crate::runsc::flaw;

/// A `runsc` that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunscReport {
    /// Where it is.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
    /// What is wrong with that one, and what breaks for it.
    pub flaw: Option<String>,
}

impl RunscReport {
    /// Looks for it; says why not where there is none.
    pub async fn of_this_host() -> Result<Self, String> {
        let program = find_runsc().ok_or("runsc is not installed (package runsc)")?;
        let version = Runsc::new(program.clone(), std::env::temp_dir()).version().await;
        let version = version.map_err(|error| error.to_string())?;
        Ok(Self { program, flaw: flaw(&facts(Some(version.clone()))), version })
    }
}
