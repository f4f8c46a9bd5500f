//! The folders of output files: one of all accounts, and in it one of each.
//!
//! The outer one is where every account may write (`/var/tmp`), so that any of them may have put
//! something in its place: a folder of its own, a link, a file. What is there and not the agent's
//! is moved aside and left alone; nothing of it is followed, used or removed. In the agent's own
//! folder no other account can do anything but reach what belongs to it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, mkdirat, open, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::journal::{random, unix_ms};

/// What is kept of older files of an account.
const MAX_FILES: usize = 20;
const MAX_TOTAL_BYTES: u64 = 1 << 30;
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The most entries of a folder that are looked at.
const MAX_LOOKED_AT: usize = 10_000;

/// Who comes again and again between is given up on.
const ATTEMPTS: usize = 8;

/// Others may pass through, and neither look around nor write.
const SHARED_MODE: Mode = Mode::from_raw_mode(0o711);

/// To whom a command's file belongs.
pub(super) type Owner = (Uid, Gid);

/// The folder of one account's output files, which nobody else may enter.
pub(super) struct OwnFolder {
    pub(super) folder: OwnedFd,
    pub(super) path: PathBuf,
}

impl OwnFolder {
    /// Opens it, with room for one more file: what is too old or too much has gone.
    pub(super) fn open(shared: &Path, owner: Owner) -> Result<Self, Errno> {
        let account = owner.0.as_raw().to_string();
        let parent = shared_folder(shared)?;
        match mkdirat(&parent, &account, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let folder = openat(&parent, &account, FOLDER, Mode::empty())?;
        give(&folder, owner)?;
        clean(&folder);
        Ok(Self { folder, path: shared.join(account) })
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder of all accounts: of the agent's own account, and nobody else may write there.
fn shared_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let above = open(above, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..ATTEMPTS {
        match mkdirat(&above, name, SHARED_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        match openat(&above, name, FOLDER, Mode::empty()) {
            Ok(folder) if is_ours(&folder)? => {
                fchmod(&folder, SHARED_MODE)?;
                return Ok(folder);
            }
            // Somebody else's, or open to others; a link; no folder at all.
            Ok(_) | Err(Errno::LOOP | Errno::NOTDIR) => move_aside(&above, name)?,
            // Removed meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::PERM)
}

fn is_ours(folder: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(folder)?;
    Ok(stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0)
}

fn move_aside(above: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let mut aside = name.to_owned();
    aside.push(format!(".not-ours-{:016x}", random()));
    match renameat(above, name, above, &aside) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Gives something to an account, unless it has it.
pub(super) fn give(file: &OwnedFd, (uid, gid): Owner) -> Result<(), Errno> {
    let stat = fstat(file)?;
    if (stat.st_uid, stat.st_gid) == (uid.as_raw(), gid.as_raw()) {
        return Ok(());
    }
    fchown(file, Some(uid), Some(gid))
}

/// Removes what is too old or too much, the oldest first. Names are never followed.
fn clean(folder: &OwnedFd) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    let mut files: Vec<(i64, u64, std::ffi::CString)> = entries
        .take(MAX_LOOKED_AT)
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().to_owned();
            let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            (!is_directory).then_some((stat.st_mtime, u64::try_from(stat.st_size).unwrap_or(0), name))
        })
        .collect();
    files.sort_unstable_by_key(|file| std::cmp::Reverse(file.0));
    let oldest = i64::try_from((unix_ms() / 1000).saturating_sub(MAX_AGE.as_secs())).unwrap_or(0);
    let mut bytes = 0u64;
    for (number, (modified, size, name)) in files.iter().enumerate() {
        bytes = bytes.saturating_add(*size);
        // One more is about to come.
        if number + 1 >= MAX_FILES || bytes > MAX_TOTAL_BYTES || *modified < oldest {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::time::SystemTime;

    use super::*;

    fn me() -> Owner {
        (rustix::process::geteuid(), rustix::process::getegid())
    }

    fn open_own(shared: &Path) -> Result<PathBuf, Errno> {
        OwnFolder::open(shared, me()).map(|own| own.path)
    }

    /// Names beside the folder that begin with its name.
    fn aside(shared: &Path) -> Vec<PathBuf> {
        let beside = fs::read_dir(shared.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        beside.filter(|path| path.to_string_lossy().contains("output.not-ours-")).collect()
    }

    #[test]
    fn what_others_put_there_is_moved_aside_and_left_alone() {
        assert!(rustix::process::geteuid().is_root(), "giving files away needs root; run the tests as root");
        let nobody = Some(65534);
        type Trap = fn(&Path, &Path);
        let traps: [Trap; 5] = [
            |output, elsewhere| symlink(elsewhere, output).unwrap(),
            |output, _| symlink("nowhere", output).unwrap(),
            |output, _| fs::write(output, "precious").unwrap(),
            |output, _| {
                fs::create_dir(output).unwrap();
                fs::write(output.join("precious"), "").unwrap();
                fs::set_permissions(output, fs::Permissions::from_mode(0o777)).unwrap();
            },
            |output, elsewhere| {
                fs::create_dir(output).unwrap();
                symlink(elsewhere, output.join("0")).unwrap();
                chown(output, Some(65534), None).unwrap();
            },
        ];
        for (number, trap) in traps.into_iter().enumerate() {
            let root = tempfile::tempdir().unwrap();
            let (output, elsewhere) = (root.path().join("output"), root.path().join("elsewhere"));
            fs::create_dir(&elsewhere).unwrap();
            trap(&output, &elsewhere);
            std::os::unix::fs::lchown(&output, nobody, nobody).unwrap();
            for _ in 0..2 {
                let own = open_own(&output).unwrap_or_else(|errno| panic!("trap {number}: {errno}"));
                assert_eq!(own, output.join("0"));
            }
            let shared = fs::symlink_metadata(&output).unwrap();
            assert_eq!((shared.is_dir(), shared.uid(), shared.mode() & 0o7777), (true, 0, 0o711));
            let [aside] = aside(&output).try_into().unwrap();
            assert_eq!(fs::symlink_metadata(&aside).unwrap().uid(), 65534);
            assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "trap {number}");
            match number {
                2 => assert_eq!(fs::read(aside).unwrap(), b"precious"),
                3 => assert!(aside.join("precious").exists()),
                _ => {}
            }
        }
    }

    #[test]
    fn where_none_can_be_made_there_is_none() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("output")).unwrap();
        fs::create_dir(root.path().join("elsewhere")).unwrap();
        symlink("../elsewhere", root.path().join("output").join(me().0.as_raw().to_string())).unwrap();
        assert!(open_own(&root.path().join("output")).is_err(), "a link is followed");
        assert!(open_own(Path::new("/proc/no-such/output")).is_err());
        assert!(open_own(Path::new("/")).is_err());
        assert_eq!(fs::read_dir(root.path().join("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn others_can_pass_through() {
        let root = tempfile::tempdir().unwrap();
        let output = root.path().join("output");
        fs::create_dir(&output).unwrap();
        fs::set_permissions(&output, fs::Permissions::from_mode(0o700)).unwrap();
        open_own(&output).unwrap();
        assert_eq!(fs::metadata(&output).unwrap().mode() & 0o7777, 0o711);
    }

    #[test]
    fn old_files_go() {
        let root = tempfile::tempdir().unwrap();
        let output = root.path().join("output");
        let own = open_own(&output).unwrap();
        let files = || fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        for number in 0..MAX_FILES + 5 {
            open_own(&output).unwrap();
            fs::write(own.join(number.to_string()), "x").unwrap();
        }
        assert_eq!(files().len(), MAX_FILES);
        let old = SystemTime::now() - MAX_AGE - Duration::from_secs(10);
        for path in files() {
            fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        open_own(&output).unwrap();
        assert_eq!(files().len(), 0);
    }
}
