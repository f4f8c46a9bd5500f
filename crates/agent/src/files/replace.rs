//! Replacing a file: all of the new content, or all of the old.
//!
//! ```text
//!  begin ──► staged file in the target's folder ──► append … ──► commit: fsync, rename, fsync folder
//!                        │
//!                        └── dropped, or failed anywhere ──► gone; the target is untouched
//! ```
//!
//! An edit leaves out both fsyncs; see the edit module. The rename happens in the file's turn, see
//! [`super::turns`].
//!
//! A link is followed to the file it names, as an ordinary write would. A file that was there
//! keeps its mode and owner; other hard links to it keep the old content.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Gid, Mode, OFlags, Stat, Uid, fchown, fstat, fstatvfs, fsync, lstat, mkdirat, open, openat, readlink,
};
use rustix::io::Errno;

use crate::accounts::Account;
use crate::error::CallError;

use super::check_regular;
use super::staged::{Dress, Staged};
use super::turns::Turn;

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// How a new file is made.
pub(crate) struct NewFile {
    /// Permission bits.
    pub(crate) mode: u32,
    /// To whom it and new folders above it are given.
    pub(crate) owner: Option<Account>,
    /// Bytes that will come, as far as known.
    pub(crate) size_hint: u64,
}

/// A replacement under way. Leaves no trace when dropped before it is committed.
pub(crate) struct Replacement {
    target: PathBuf,
    name: PathBuf,
    staged: Staged,
    dress: Dress,
    created: bool,
    written: u64,
}

impl Replacement {
    /// Makes missing folders and the file that will be the target.
    pub(crate) fn begin(path: &Path, new: &NewFile) -> Result<Self, CallError> {
        let target = follow_links(path)?;
        let fail = || CallError::file(&target);
        let old = match lstat(&target) {
            Ok(stat) => {
                check_regular(&target, &stat)?;
                Some(stat)
            }
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(fail()(errno)),
        };
        // `..` and `/` are folders, and were refused above if they exist; a trailing slash
        // says that a folder is meant.
        let name = target.file_name().filter(|_| !ends_with_slash(&target));
        let name = PathBuf::from(name.ok_or(Errno::ISDIR).map_err(fail())?);
        let folder_path = target.parent().unwrap_or(Path::new("/"));
        let folder = make_folder(folder_path, new.owner.as_ref())?;
        check_room(&folder, new.size_hint).map_err(fail())?;
        let dress = dress(old.as_ref(), new);
        let staged = match Staged::begin(folder, old.is_some()) {
            Ok(staged) => staged,
            Err((folder, errno)) => return Err(cannot_create(&folder, &target, errno)),
        };
        Ok(Self { name, staged, dress, created: old.is_none(), written: 0, target })
    }

    /// Adds content.
    pub(crate) fn append(&mut self, mut data: &[u8]) -> Result<(), CallError> {
        while !data.is_empty() {
            match rustix::io::write(self.staged.file(), data) {
                Ok(written) => {
                    self.written += written as u64;
                    data = data.get(written..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(CallError::file(&self.target)(errno)),
            }
        }
        Ok(())
    }

    /// The folder and the name in it that the content will have: whose turn is needed.
    pub(super) fn place(&self) -> Result<(Stat, &OsStr), CallError> {
        let folder = fstat(self.staged.folder()).map_err(CallError::file(&self.target))?;
        Ok((folder, self.name.as_os_str()))
    }

    /// Brings the new content to the disk, not yet in its place.
    pub(super) fn sync(&mut self) -> Result<(), CallError> {
        let fail = || CallError::file(&self.target);
        self.staged.dress(&self.dress).map_err(fail())?;
        fsync(self.staged.file()).map_err(fail())
    }

    /// Puts the new content, which is on the disk, in the place of the old, and lets the turn go as soon
    /// as it is there. Answers how much it is, and whether there was nothing before.
    pub(super) fn commit_synced(mut self, turn: Turn) -> Result<(u64, bool), CallError> {
        self.staged.put(&self.name, self.created).map_err(CallError::file(&self.target))?;
        drop(turn);
        // The new name is there; a file system that cannot sync folders keeps it its own way.
        let _ = fsync(self.staged.folder());
        Ok((self.written, self.created))
    }

    /// Puts the new content in the place of the old, without waiting for the disk. The turn is
    /// the target's.
    pub(crate) fn commit_unsynced(mut self, _turn: &Turn) -> Result<(), CallError> {
        let fail = || CallError::file(&self.target);
        self.staged.dress(&self.dress).map_err(fail())?;
        self.staged.put(&self.name, self.created).map_err(CallError::file(&self.target))
    }

    /// Puts the content where nothing is, without waiting for the disk. Fails when something
    /// came there meanwhile.
    pub(crate) fn commit_new(mut self, _turn: Turn) -> Result<(), CallError> {
        let fail = || CallError::file(&self.target);
        self.staged.dress(&self.dress).map_err(fail())?;
        match self.staged.put_new(&self.name) {
            Err(Errno::EXIST) => Err(CallError::AlreadyExists { path: self.target.clone() }),
            put => put.map_err(CallError::file(&self.target)),
        }
    }
}

/// The mode and owner that the target is to have.
fn dress(old: Option<&Stat>, new: &NewFile) -> Dress {
    match (old, &new.owner) {
        (Some(old), _) => Dress { owner: Some((old.st_uid, old.st_gid)), mode: old.st_mode & 0o7777 },
        (None, Some(account)) => Dress { owner: Some((account.uid, account.gid)), mode: new.mode },
        (None, None) => Dress { owner: None, mode: new.mode },
    }
}

/// Why nothing could be created in a folder that is there. Some file systems of the kernel's
/// own say then that it does not exist.
fn cannot_create(folder: &OwnedFd, path: &Path, errno: Errno) -> CallError {
    let is_there = fstat(folder).is_ok_and(|folder| folder.st_nlink > 0);
    match errno {
        Errno::NOENT if is_there => CallError::NoNewFiles { path: path.to_owned() },
        errno => CallError::file(path)(errno),
    }
}

/// The path that is not a link any more; it need not exist.
pub(crate) fn follow_links(path: &Path) -> Result<PathBuf, CallError> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match readlink(&target, Vec::new()) {
            Ok(link) => {
                let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
                target = folder.join(Path::new(os_str(link.as_bytes())));
            }
            // Not a link, or nothing at all.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(target),
            Err(errno) => return Err(CallError::file(path)(errno)),
        }
    }
    Err(CallError::file(path)(Errno::LOOP))
}

fn os_str(bytes: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a folder, made with its parents where it is missing: up to the first that is there, and down
/// again. A path may have two thousand of them, more than a thread's stack would hold.
fn make_folder(path: &Path, owner: Option<&Account>) -> Result<OwnedFd, CallError> {
    let mut missing = Vec::new();
    let mut there = path;
    let mut folder = loop {
        match open(there, FOLDER, Mode::empty()) {
            Ok(folder) => break folder,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(CallError::file(there)(errno)),
        }
        let (Some(above), Some(name)) = (there.parent(), there.file_name()) else {
            // A path through `..` of something that is not there.
            return Err(CallError::file(there)(Errno::NOENT));
        };
        missing.push((there, name));
        there = above;
    };
    for (path, name) in missing.into_iter().rev() {
        folder = make_one(&folder, path, name, owner)?;
    }
    Ok(folder)
}

fn make_one(
    above: &OwnedFd,
    path: &Path,
    name: &OsStr,
    owner: Option<&Account>,
) -> Result<OwnedFd, CallError> {
    match mkdirat(above, name, Mode::from_raw_mode(0o755)) {
        // Made by somebody else meanwhile: just as good.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(cannot_create(above, path, errno)),
    }
    let folder = openat(above, name, FOLDER, Mode::empty()).map_err(CallError::file(path))?;
    if let Some(owner) = owner {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        fchown(&folder, Some(uid), Some(gid)).map_err(CallError::file(path))?;
    }
    Ok(folder)
}

/// Refuses early what cannot fit. What fits now may still not fit later.
fn check_room(folder: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    match fstatvfs(folder) {
        // Zero blocks in all: a file system that does not count.
        Ok(room) if room.f_blocks > 0 && room.f_bfree.saturating_mul(room.f_frsize) < bytes => {
            Err(Errno::NOSPC)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    const NEW: NewFile = NewFile { mode: 0o644, owner: None, size_hint: 0 };

    fn write(path: &Path, content: &[u8]) -> Result<(u64, bool), CallError> {
        let mut replacement = Replacement::begin(path, &NEW)?;
        replacement.append(content)?;
        replacement.sync()?;
        let turn = Turn::now(&replacement)?.expect("nobody else changes it");
        replacement.commit_synced(turn)
    }

    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_gets_its_folders() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c");
        assert_eq!(write(&path, b"content").unwrap(), (7, true));
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o644);
        assert_eq!(entries(&root.path().join("a/b")), ["c"]);
    }

    /// As many folders as a path can have, on a thread with the stack that the agent's have.
    #[test]
    fn many_folders_need_little_stack() {
        let root = tempfile::tempdir().unwrap();
        let depth = (libc::PATH_MAX as usize - root.path().as_os_str().len() - 8) / 2;
        let path = root.path().join("d/".repeat(depth)).join("file");
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let written = small.spawn(move || write(&path, b"deep").unwrap()).unwrap();
        assert_eq!(written.join().unwrap(), (4, true));
    }

    #[test]
    fn an_old_file_keeps_its_mode() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("script");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        assert_eq!(write(&path, b"").unwrap(), (0, false));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4751);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn what_is_not_committed_never_was() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "old").unwrap();
        let mut replacement = Replacement::begin(&path, &NEW).unwrap();
        replacement.append(b"half of").unwrap();
        drop(replacement);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(entries(root.path()), ["file"]);
    }

    #[test]
    fn links_are_written_through() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("real")).unwrap();
        symlink("real/file", root.path().join("one")).unwrap();
        symlink(root.path().join("one"), root.path().join("two")).unwrap();
        assert_eq!(write(&root.path().join("two"), b"x").unwrap(), (1, true));
        assert_eq!(fs::read(root.path().join("real/file")).unwrap(), b"x");
        assert!(root.path().join("two").is_symlink());
        symlink("loop", root.path().join("loop")).unwrap();
        assert!(matches!(
            write(&root.path().join("loop"), b""),
            Err(CallError::File { errno: Errno::LOOP, .. })
        ));
    }

    #[test]
    fn only_files_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let check = |path: &str, expect: Errno| match write(&root.path().join(path), b"") {
            Err(CallError::File { errno, .. }) => assert_eq!(errno, expect, "{path}"),
            other => panic!("{path}: {other:?}"),
        };
        check(".", Errno::ISDIR);
        check("..", Errno::ISDIR);
        check("new/", Errno::ISDIR);
        check("file/below", Errno::NOTDIR);
        check(&"x".repeat(256), Errno::NAMETOOLONG);
        let null = Replacement::begin(Path::new("/dev/null"), &NEW).map(drop);
        assert!(matches!(null, Err(CallError::NotRegular { .. })), "{null:?}");
        assert_eq!(entries(root.path()), ["file"]);
    }

    #[test]
    fn where_nothing_can_be_created_it_is_said_so() {
        for path in ["/proc/sys/kernel/hostname", "/proc/sys/new", "/proc/new/folder/file"] {
            let refused = Replacement::begin(Path::new(path), &NEW).map(drop);
            assert!(matches!(refused, Err(CallError::NoNewFiles { .. })), "{path}: {refused:?}");
        }
        // A folder that was removed is really not there.
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("gone")).unwrap();
        let folder = open(root.path().join("gone"), OFlags::RDONLY, Mode::empty()).unwrap();
        fs::remove_dir(root.path().join("gone")).unwrap();
        let error = cannot_create(&folder, Path::new("gone/file"), Errno::NOENT);
        assert!(matches!(error, CallError::NotFound { .. }), "{error:?}");
    }

    #[test]
    fn what_cannot_fit_is_refused_early() {
        let root = tempfile::tempdir().unwrap();
        let huge = NewFile { size_hint: u64::MAX, ..NEW };
        let refused = Replacement::begin(&root.path().join("file"), &huge).map(drop);
        assert!(matches!(refused, Err(CallError::File { errno: Errno::NOSPC, .. })), "{refused:?}");
        assert_eq!(entries(root.path()), [""; 0]);
    }
}
