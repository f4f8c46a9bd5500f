//! Takes over packages of a Debian host: those an image needs, whole, with their entries in the
//! package manager's database. So the image is small, nothing that was put beside packages comes
//! along, and `apt-get install` works in it as on the host.

mod alternatives;
mod closure;
mod database;
mod status;

use std::path::Path;

use md5::{Digest, Md5};

use super::error::MinimalError;
use super::exclusions::is_excluded;
use super::folders;
use super::host::{Host, SYSTEM};
use super::items::Items;
use closure::closure;
use status::Package;

/// Settings larger than this are none.
const MAX_SETTING: u64 = 4 << 20;

/// How many packages were taken; nothing where the host has no database of them.
pub(super) fn take(host: &Host, wanted: &[String], items: &mut Items) -> Result<Option<usize>, MinimalError> {
    let Some(status) = host.read(Path::new("var/lib/dpkg/status")) else { return Ok(None) };
    let installed = status::parse(&status);
    let selected = closure(&installed, wanted);
    if selected.is_empty() {
        return Ok(None);
    }
    for package in &selected {
        take_files(host, package, items)?;
        take_settings(host, package, items)?;
    }
    take_modules(host, items)?;
    alternatives::take(host, items)?;
    database::take(host, &selected, items)?;
    Ok(Some(selected.len()))
}

/// Modules of Node.js that came with a package, as they are now: npm replaces itself and others in
/// the middle of what the package brought.
fn take_modules(host: &Host, items: &mut Items) -> Result<(), MinimalError> {
    let modules = Path::new("usr/lib/node_modules");
    for name in host.names(modules)? {
        let module = modules.join(name);
        if items.has(&module) && host.metadata(&module).is_some_and(|found| found.is_dir()) {
            folders::walk(host, &module, items)?;
        }
    }
    Ok(())
}

/// The system's part of a package, and the folders of its settings and state, empty.
fn take_files(host: &Host, package: &Package, items: &mut Items) -> Result<(), MinimalError> {
    for line in database::file_list(host, package).lines() {
        let Some(path) = host.place(Path::new(line)) else { continue };
        let Some(first) = path.iter().next().and_then(|name| name.to_str()) else { continue };
        if first == "var" || first == "etc" {
            if host.metadata(&path).is_some_and(|found| found.is_dir()) {
                items.folder(path, 0o755)?;
            }
        } else if SYSTEM.contains(&first) && !is_excluded(&path) {
            host.take(&path, items)?;
        }
    }
    Ok(())
}

/// Settings that are still as the package brought them: nobody can have put anything into them.
fn take_settings(host: &Host, package: &Package, items: &mut Items) -> Result<(), MinimalError> {
    for (path, brought) in &package.settings {
        let Some(path) = host.place(Path::new(path)).filter(|path| path.starts_with("etc")) else { continue };
        let is_small =
            host.metadata(&path).is_some_and(|found| found.is_file() && found.len() <= MAX_SETTING);
        if is_small
            && let Ok(content) = std::fs::read(host.root().join(&path))
            && hex(&Md5::digest(&content)) == *brought
        {
            host.take(&path, items)?;
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
