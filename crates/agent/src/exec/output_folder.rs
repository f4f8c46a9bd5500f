//! The folders of output files: one of all accounts, and in it one of each.
//!
//! The outer one is where every account may write (`/var/tmp`), so that any of them may have put
//! something in its place: a folder of its own, a link, a file. What is there and not the agent's
//! is moved aside and left alone; nothing of it is followed, used or removed. In the agent's own
//! folder no other account can do anything but reach what belongs to it.
//!
//! Root of the sandbox may remove all of it, `/var/tmp` included: it is made again.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, mkdir, mkdirat, open, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::being_written::is_being_written;
use super::journal::{random, unix_ms};
use super::output_budget::{Budget, Room};

/// What is kept of an account's files.
const MAX_FILES: usize = 20;
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The most entries of a folder that are looked at.
const MAX_LOOKED_AT: usize = 10_000;

/// Who comes again and again between is given up on.
const ATTEMPTS: usize = 8;

/// Others may pass through, and neither look around nor write.
const SHARED_MODE: Mode = Mode::from_raw_mode(0o711);

/// What `/var/tmp` has: whoever likes may write, and remove what is theirs.
const ABOVE_MODE: Mode = Mode::from_raw_mode(0o1777);

/// To whom a command's file belongs.
pub(super) type Owner = (Uid, Gid);

/// The folder of one account's output files, which nobody else may enter.
pub(super) struct OwnFolder {
    pub(super) folder: OwnedFd,
    pub(super) path: PathBuf,
    /// What the next file may take.
    pub(super) room: Room,
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
        let budget = Budget::of(&folder);
        clean(&folder, MAX_FILES - 1, budget.for_finished());
        Ok(Self { room: budget.for_new(&folder), folder, path: shared.join(account) })
    }
}

/// Makes place for a file that is about to be finished and is still among those being written.
pub(super) fn make_place(folder: &OwnedFd, room: &Room) {
    clean(folder, MAX_FILES, room.for_finished());
}

/// Never waits, whatever is there: a pipe without a writer would make it.
const FOLLOWED: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

const FOLDER: OFlags = FOLLOWED.union(OFlags::NOFOLLOW);

/// The folder of all accounts: of the agent's own account, and nobody else may write there.
fn shared_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let above = folder_above(above)?;
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

/// The folder that the shared one lies in, which is the sandbox's own and may be anywhere. Where it is
/// gone it is made again; what is there and no folder is left alone.
fn folder_above(path: &Path) -> Result<OwnedFd, Errno> {
    match open(path, FOLLOWED, Mode::empty()) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    if let Some(parent) = path.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(parent);
        made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    match mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) => {}
        // Somebody was quicker, or it is a link to nowhere.
        Err(Errno::EXIST) => return open(path, FOLLOWED, Mode::empty()),
        Err(errno) => return Err(errno),
    }
    let folder = open(path, FOLDER, Mode::empty())?;
    if is_ours(&folder)? {
        fchmod(&folder, ABOVE_MODE)?;
    }
    Ok(folder)
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

/// Removes what is too old or too much of the finished files, the oldest first. Those that are being
/// written are among the so many, but none of them goes: what they take is bounded elsewhere. However many there
/// are, the last few finished ones stay, because somebody was just told of them. Names are never followed.
fn clean(folder: &OwnedFd, most_files: usize, most_bytes: u64) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    let files = entries.take(MAX_LOOKED_AT).filter_map(|entry| {
        let name = entry.ok()?.file_name().to_owned();
        let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        (!is_directory).then_some((modified, u64::try_from(stat.st_size).unwrap_or(0), name))
    });
    let (being_written, mut finished): (Vec<_>, Vec<_>) =
        files.partition(|(_, _, name)| is_being_written(name.as_bytes()));
    finished.sort_unstable_by_key(|file| std::cmp::Reverse(file.0));
    let oldest = i64::try_from((unix_ms() / 1000).saturating_sub(MAX_AGE.as_secs())).unwrap_or(0);
    let most_finished = most_files.saturating_sub(being_written.len()).max(most_files / 5);
    let mut bytes = 0u64;
    for (number, ((modified, _), size, name)) in finished.iter().enumerate() {
        bytes = bytes.saturating_add(*size);
        if number >= most_finished || bytes > most_bytes || *modified < oldest {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::time::SystemTime;

    use super::super::being_written::BeingWritten;
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
    fn the_oldest_go_where_they_are_too_much() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..6u64 {
            let file = fs::File::create(root.path().join(number.to_string())).unwrap();
            file.set_len(10).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(100 - number)).unwrap();
        }
        let folder = open(root.path(), FOLDER, Mode::empty()).unwrap();
        clean(&folder, MAX_FILES, 25);
        let mut left: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["4", "5"]);
    }

    #[test]
    fn what_is_being_written_stays() {
        let root = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - MAX_AGE - Duration::from_secs(10);
        let names = ["written", "finished", "older"].map(|name| format!("{name}-{:x}", random()));
        for (name, age) in names.iter().zip([100, 1, 2]) {
            let file = fs::File::create(root.path().join(name)).unwrap();
            file.set_len(10).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let [written, finished, older] = &names;
        let is_there = |name: &String| root.path().join(name).exists();
        let folder = open(root.path(), FOLDER, Mode::empty()).unwrap();
        let being_written = BeingWritten::new(written.clone());
        // It is the oldest, and the others go first: it takes one of two places.
        clean(&folder, 2, 100);
        assert_eq!([written, finished, older].map(is_there), [true, true, false]);
        // What it takes is no finished file's.
        clean(&folder, 2, 10);
        assert_eq!([written, finished].map(is_there), [true, true]);
        fs::File::options().write(true).open(root.path().join(written)).unwrap().set_modified(old).unwrap();
        clean(&folder, 0, 0);
        assert_eq!([written, finished].map(is_there), [true, false]);
        drop(being_written);
        clean(&folder, 2, 100);
        assert!(!is_there(written), "it is one like the others now");
    }

    /// Whoever removes `/var/tmp` has output files all the same, and whatever else is put there costs
    /// nothing but the file.
    #[test]
    fn the_folder_above_is_made_again() {
        assert!(rustix::process::geteuid().is_root(), "whose it is depends on it; run the tests as root");
        let root = tempfile::tempdir().unwrap();
        let (var, tmp) = (root.path().join("var"), root.path().join("var/tmp"));
        for _ in 0..2 {
            assert_eq!(open_own(&tmp.join("output")).unwrap(), tmp.join("output/0"));
            let above = fs::metadata(&tmp).unwrap();
            assert_eq!((above.uid(), above.mode() & 0o7777), (0, 0o1777));
            fs::remove_dir_all(&var).unwrap();
        }
        fs::create_dir(&var).unwrap();
        let elsewhere = root.path().join("elsewhere");
        rustix::fs::mknodat(rustix::fs::CWD, &tmp, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(open_own(&tmp.join("output")), Err(Errno::NOTDIR), "a pipe");
        fs::remove_file(&tmp).unwrap();
        fs::write(&tmp, "precious").unwrap();
        assert_eq!(open_own(&tmp.join("output")), Err(Errno::NOTDIR), "a file");
        assert_eq!(fs::read(&tmp).unwrap(), b"precious");
        fs::remove_file(&tmp).unwrap();
        symlink(&elsewhere, &tmp).unwrap();
        assert_eq!(open_own(&tmp.join("output")), Err(Errno::NOENT), "a link to nowhere");
        assert!(!elsewhere.exists());
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
