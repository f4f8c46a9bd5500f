//! Disks that are folders of the host's file system: where there are no loop devices, or no
//! right to use them.
//!
//! What a guest has made in one may be of any depth and have any mode. Removing it therefore
//! follows no path of the guest's for more than one step: folders are moved up beside each
//! other, one by one, and emptied there.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use emergent_host_disk::TemplateContent;
use emergent_types::WorkspaceId;
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::launch::write_identity;
use crate::layout::DISK_FOLDER;
use crate::means::Accounts;
use crate::skeleton::Skeleton;

/// What is being removed, in a state folder.
const REMOVING: &str = "removing";

/// Makes the disk of a new sandbox.
pub(crate) fn make(
    skeleton: &Skeleton,
    state_folder: &Path,
    workspace: WorkspaceId,
    accounts: Accounts,
) -> io::Result<()> {
    let disk = state_folder.join(DISK_FOLDER);
    skeleton.write_to(&disk)?;
    let disk = openat(CWD, &disk, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    write_identity(&disk, workspace, accounts)
}

/// Removes the disk of a sandbox in which nothing runs any more; none is success. Goes on
/// where an earlier attempt ended.
pub(crate) fn remove(state_folder: &Path) -> io::Result<()> {
    let removing = state_folder.join(REMOVING);
    let disk = state_folder.join(DISK_FOLDER);
    if fs::symlink_metadata(&disk).is_ok() {
        allow_nothing_but_exist(fs::create_dir(&removing))?;
        // Whatever number an earlier attempt came to.
        let begun = next_name(&removing)?;
        open_up(&disk)?;
        fs::rename(&disk, removing.join(begun.to_string()))?;
    }
    let entries = |folder: &Path| match fs::read_dir(folder) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let Some(_) = entries(&removing)? else { return Ok(()) };
    let mut next = next_name(&removing)?;
    while let Some(folder) = fs::read_dir(&removing)?.next().transpose()? {
        let folder = folder.path();
        open_up(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                // To be moved it must be writable itself.
                open_up(&entry.path())?;
                fs::rename(entry.path(), removing.join(next.to_string()))?;
                next += 1;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_dir(&folder)?;
    }
    fs::remove_dir(&removing)
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

fn next_name(removing: &Path) -> io::Result<u64> {
    let numbers = fs::read_dir(removing)?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    Ok(numbers.max().map_or(0, |last| last + 1))
}

fn allow_nothing_but_exist(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn whatever_a_guest_has_made_is_removed_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "kept").unwrap();
        let disk = state.path().join(DISK_FOLDER);
        fs::create_dir(&disk).unwrap();
        symlink(outside.path(), disk.join("way-out")).unwrap();
        symlink("/nonexistent", disk.join("dangling")).unwrap();
        fs::write(disk.join("\n odd \u{1b}"), "x").unwrap();
        // Deeper than any path may be long.
        let home = openat(CWD, &disk, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut inner = home;
        let name = "d".repeat(200);
        for _ in 0..200 {
            rustix::fs::mkdirat(&inner, &*name, Mode::from_raw_mode(0o700)).unwrap();
            inner = openat(&inner, &*name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        fs::create_dir(disk.join("closed")).unwrap();
        fs::write(disk.join("closed/file"), "x").unwrap();
        fs::set_permissions(disk.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
        fs::set_permissions(&disk, fs::Permissions::from_mode(0o555)).unwrap();

        remove(state.path()).unwrap();
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
        assert_eq!(fs::read(outside.path().join("kept")).unwrap(), b"kept");
        remove(state.path()).unwrap();
    }
}
