//! The package manager's database, cut down to the packages that are taken: what is installed, the
//! files, the scripts. What somebody answered when a package was installed is kept elsewhere
//! (`/var/cache/debconf`) and stays on the host.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::error::MinimalError;
use super::super::host::Host;
use super::super::items::Items;
use super::status::Package;

const DATABASE: &str = "var/lib/dpkg";

/// The paths a package has brought, a line each.
pub(super) fn file_list(host: &Host, package: &Package) -> String {
    let path = |stem: &str| PathBuf::from(format!("{DATABASE}/info/{stem}.list"));
    host.read(&path(&package.stem)).or_else(|| host.read(&path(&package.name))).unwrap_or_default()
}

pub(super) fn take(host: &Host, selected: &[&Package], items: &mut Items) -> Result<(), MinimalError> {
    let database = Path::new(DATABASE);
    let status: Vec<String> = selected.iter().map(|package| format!("{}\n", package.stanza)).collect();
    items.text(database.join("status"), status.join("\n"), 0o644)?;
    items.text(database.join("available"), "", 0o644)?;
    for folder in ["updates", "parts", "triggers", "alternatives", "info"] {
        items.folder(database.join(folder), 0o755)?;
    }
    for file in ["diversions", "arch", "info/format"] {
        host.take(&database.join(file), items)?;
    }

    let stems: HashSet<&str> =
        selected.iter().flat_map(|package| [package.stem.as_str(), package.name.as_str()]).collect();
    for name in host.names(&database.join("info"))? {
        let stem = name.to_str().and_then(|name| name.rsplit_once('.')).map(|(stem, _)| stem);
        if stem.is_some_and(|stem| stems.contains(stem)) {
            host.take(&database.join("info").join(name), items)?;
        }
    }
    triggers(host, &stems, items)
}

/// Who wants to be told when something changes: a file a trigger, a line a package, and one file
/// for paths, with the package at the end of each line.
fn triggers(host: &Host, stems: &HashSet<&str>, items: &mut Items) -> Result<(), MinimalError> {
    let folder = Path::new(DATABASE).join("triggers");
    for name in host.names(&folder)? {
        let path = folder.join(&name);
        if name == "Lock" || name == "Unincorp" {
            continue;
        }
        let Some(text) = host.read(&path) else { continue };
        let interested = |line: &&str| {
            let package = line.split_whitespace().last().unwrap_or_default();
            stems.contains(package.split('/').next().unwrap_or_default())
        };
        let kept: String = text.lines().filter(interested).map(|line| format!("{line}\n")).collect();
        if !kept.is_empty() {
            items.text(path, kept, 0o644)?;
        }
    }
    Ok(())
}
