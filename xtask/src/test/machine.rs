//! Makes the machine ready for the tiers: finds the programs they need, and installs those that
//! are missing by the name of their Debian package.
//!
//! Installing is done only where it can be done without a question: as root, with apt-get. A
//! person who is not root is told what is missing instead.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::apt_sources::{Backports, backports};
use super::tiers::{Tier, Tool};

/// Ours alone, so that removing the file undoes it. A release's backports are never preferred by
/// apt unless a package is asked for from there, so nothing else changes on the machine.
const BACKPORTS_FILE: &str = "/etc/apt/sources.list.d/emergent-test-backports.sources";

/// Whether a tier can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Something is missing that can be had on a machine of this kind: fails under CI.
    Missing(String),
    /// No installation and no privilege would help: the tier belongs to another kind of machine.
    Impossible(String),
}

/// Installs what the tiers miss, then says for each whether it can run. The output of apt goes to
/// `log`, because this runs beside the build.
pub(crate) fn make_ready(tiers: &[&Tier], log: &Path) -> Vec<Readiness> {
    let root = is_root();
    let missing: BTreeSet<Tool> = tiers.iter().flat_map(|tier| missing_tools(tier)).collect();
    let installed = if missing.is_empty() {
        Ok(())
    } else if !root {
        Err("only root can install it".to_owned())
    } else if find_program("apt-get").is_none() {
        Err("there is no apt-get to install it with".to_owned())
    } else {
        install(&missing, log).map_err(|error| format!("{error:#}; see {}", log.display()))
    };
    tiers.iter().map(|tier| readiness(tier, root, &missing_tools(tier), installed.as_ref().err())).collect()
}

/// The decision itself, from facts.
fn readiness(tier: &Tier, root: bool, missing: &[Tool], obstacle: Option<&String>) -> Readiness {
    if !cfg!(target_os = "linux") && (tier.needs_root || !tier.tools.is_empty()) {
        return Readiness::Impossible("needs Linux".to_owned());
    }
    if tier.needs_root && !root {
        return Readiness::Missing("needs root".to_owned());
    }
    if missing.is_empty() {
        return Readiness::Ready;
    }
    let names: Vec<String> =
        missing.iter().map(|tool| format!("{} (package {})", tool.command, tool.package)).collect();
    let because = obstacle.map_or("its package does not have it", String::as_str);
    Readiness::Missing(format!("{} missing: {because}", names.join(", ")))
}

fn missing_tools(tier: &Tier) -> Vec<Tool> {
    tier.tools.iter().filter(|tool| find_program(tool.command).is_none()).copied().collect()
}

pub(super) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Looks in `PATH` and where Debian puts programs for root, which a user's `PATH` leaves out.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

fn install(tools: &BTreeSet<Tool>, log: &Path) -> Result<()> {
    let codename = release_codename()?;
    let (from_backports, from_release): (Vec<&Tool>, Vec<&Tool>) =
        tools.iter().partition(|tool| tool.too_old_in == Some(codename.as_str()));
    if !from_backports.is_empty() {
        add_backports(&codename)?;
    }

    let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let _no_services = NoServiceStarts::ensure()?;
    apt_get(&["update"], &[], &log)?;
    let options = ["install", "-y", "--no-install-recommends"];
    if !from_release.is_empty() {
        apt_get(&options, &from_release, &log)?;
    }
    if !from_backports.is_empty() {
        let suite = format!("{codename}-backports");
        apt_get(&[&options[..], &["-t", &suite]].concat(), &from_backports, &log)?;
    }
    Ok(())
}

fn apt_get(arguments: &[&str], tools: &[&Tool], log: &File) -> Result<()> {
    let status = Command::new("apt-get")
        // Another apt may be running on the machine: wait for it instead of failing.
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .args(tools.iter().map(|tool| tool.package))
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .status()
        .context("cannot start apt-get")?;
    if !status.success() {
        bail!("apt-get {} failed", arguments.join(" "));
    }
    Ok(())
}

fn release_codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    text.lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .context("/etc/os-release has no VERSION_CODENAME")
}

fn add_backports(codename: &str) -> Result<()> {
    let mut list_files = files_with_extension(Path::new("/etc/apt/sources.list.d"), "list");
    list_files.extend(fs::read_to_string("/etc/apt/sources.list"));
    let deb822_files = files_with_extension(Path::new("/etc/apt/sources.list.d"), "sources");
    match backports(codename, &list_files, &deb822_files) {
        Backports::Configured => Ok(()),
        Backports::Missing(text) => {
            fs::write(BACKPORTS_FILE, text).with_context(|| format!("cannot write {BACKPORTS_FILE}"))
        }
        Backports::Underivable => bail!("the package sources do not name a mirror of {codename}"),
    }
}

/// The text of every readable file in `folder` whose name ends so.
fn files_with_extension(folder: &Path, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|own| own == extension))
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

/// While this lives, installing a package starts no service: the tests run a Docker daemon of
/// their own, and nobody asked for one that stays.
struct NoServiceStarts {
    written: bool,
}

impl NoServiceStarts {
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn ensure() -> Result<Self> {
        if Path::new(Self::POLICY).exists() {
            // The machine has a policy of its own.
            return Ok(Self { written: false });
        }
        fs::write(Self::POLICY, "#!/bin/sh\nexit 101\n")
            .and_then(|()| fs::set_permissions(Self::POLICY, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", Self::POLICY))?;
        Ok(Self { written: true })
    }
}

impl Drop for NoServiceStarts {
    fn drop(&mut self) {
        if self.written
            && let Err(error) = fs::remove_file(Self::POLICY)
        {
            eprintln!("cannot remove {}: {error}", Self::POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tiers::{Tests, Tier, TierName, Tool};
    use super::{Readiness, readiness};

    const MKFS: Tool = Tool { command: "mkfs.ext4", package: "e2fsprogs", too_old_in: None };

    fn check(needs_root: bool, root: bool, missing: &[Tool], obstacle: Option<&str>, expect: Readiness) {
        let tier = Tier {
            name: TierName::Local,
            needs_root,
            tools: &[MKFS],
            python: &[],
            node: &[],
            tests: Tests::NotYet,
            only_long: None,
            beside: None,
            second_tries: 0,
            budget: Duration::ZERO,
        };
        let obstacle = obstacle.map(str::to_owned);
        assert_eq!(readiness(&tier, root, missing, obstacle.as_ref()), expect);
    }

    #[test]
    fn a_tier_is_ready_or_says_what_it_lacks() {
        let missing = |reason: &str| Readiness::Missing(reason.to_owned());
        check(true, true, &[], None, Readiness::Ready);
        check(false, false, &[], None, Readiness::Ready);
        // What another tier could not install is no concern of this one.
        check(false, false, &[], Some("only root can install it"), Readiness::Ready);
        check(true, false, &[], None, missing("needs root"));
        check(
            false,
            false,
            &[MKFS],
            Some("only root can install it"),
            missing("mkfs.ext4 (package e2fsprogs) missing: only root can install it"),
        );
        check(
            true,
            true,
            &[MKFS],
            None,
            missing("mkfs.ext4 (package e2fsprogs) missing: its package does not have it"),
        );
    }
}
