//! Programs from npm, in folders of their own below `target/xtask/node`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::Readiness;
use super::python::run;
use super::tiers::{NodeFolder, Tier};
use crate::repository::Repository;

/// Installs what a tier misses; a tier that is not ready for another reason stays so.
pub(super) fn make_ready(repository: &Repository, tier: &Tier, readiness: Readiness) -> Readiness {
    if readiness != Readiness::Ready {
        return readiness;
    }
    for folder in tier.node {
        if let Err(error) = ensure(&repository.path("target/xtask/node"), *folder) {
            return Readiness::Missing(format!(
                "{} (from npm) missing: {error:#}",
                folder.packages.join(", ")
            ));
        }
    }
    Readiness::Ready
}

fn ensure(all: &Path, wanted: NodeFolder) -> Result<()> {
    let folder = all.join(wanted.name);
    // Written last, so that an installation that was cut off is begun again.
    let installed = folder.join("installed");
    let packages = wanted.packages.join("\n");
    if fs::read_to_string(&installed).is_ok_and(|found| found == packages) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Without one, npm would look for a package in the folders above.
    fs::write(folder.join("package.json"), "{\"private\": true}\n")
        .with_context(|| folder.display().to_string())?;
    let quietly = ["install", "--no-audit", "--no-fund", "--loglevel=error"];
    run(Command::new("npm").args(quietly).args(wanted.packages).current_dir(&folder))?;
    fs::write(&installed, packages).with_context(|| installed.display().to_string())
}
