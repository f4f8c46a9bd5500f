//! Takes over the system folders of a host whose package manager is not known here: everything in
//! them that everybody may read, but for what is excluded.

use std::path::Path;

use super::error::MinimalError;
use super::exclusions::is_excluded;
use super::host::{Host, SYSTEM};
use super::items::Items;

/// Deeper than any system.
const MAX_DEPTH: usize = 64;

pub(super) fn take(host: &Host, items: &mut Items) -> Result<(), MinimalError> {
    for name in SYSTEM {
        if host.metadata(Path::new(name)).is_some_and(|found| found.is_dir()) {
            walk(host, Path::new(name), items)?;
        }
    }
    Ok(())
}

/// Takes a folder with all below it.
pub(super) fn walk(host: &Host, folder: &Path, items: &mut Items) -> Result<(), MinimalError> {
    walk_down(host, folder, items, MAX_DEPTH)
}

fn walk_down(host: &Host, folder: &Path, items: &mut Items, depth: usize) -> Result<(), MinimalError> {
    host.take(folder, items)?;
    for name in host.names(folder)? {
        let path = folder.join(name);
        if is_excluded(&path) {
            continue;
        }
        if host.metadata(&path).is_some_and(|found| found.is_dir()) {
            if depth > 0 {
                walk_down(host, &path, items, depth - 1)?;
            }
        } else {
            host.take(&path, items)?;
        }
    }
    Ok(())
}
