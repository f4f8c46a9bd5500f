//! Makes one entry in its folder, with everything it is to have.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Uid, XattrFlags};
use rustix::io::Errno;

use super::archive::{Archive, Entry, Kind};
use super::error::{Trying, UnpackError};
use super::root_path::RootPath;
use super::tree::{Tree, both, open_folder};

/// What is read, looked at and written at once.
const CHUNK: usize = 128 << 10;

/// What came of an archive.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Files, folders, links and pipes that were made.
    pub made: u64,
    /// Device nodes, which were left out: what runs in the root gets its devices from its runtime.
    pub devices_left_out: u64,
    /// Attributes that the file system does not take or that are not for images to set.
    pub attributes_left_out: u64,
}

pub(super) struct Placer {
    pub(super) counts: Counts,
    buffer: Vec<u8>,
}

impl Placer {
    pub(super) fn new() -> Self {
        Self { counts: Counts::default(), buffer: vec![0; CHUNK] }
    }

    pub(super) fn place<R: Read>(
        &mut self,
        entry: &Entry,
        tree: &mut Tree,
        archive: &mut Archive<R>,
    ) -> Result<(), UnpackError> {
        let path = entry.path.display();
        let Some((parents, name)) = entry.path.split() else { return self.root(entry, tree, &path) };
        match &entry.kind {
            // Not even its folder is made for it.
            Kind::Device => {
                self.counts.devices_left_out += 1;
                return Ok(());
            }
            Kind::File { size } => {
                let folder = tree.enter(parents, &mut archive.budget)?;
                make_way(folder, name, &path)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file =
                    rustix::fs::openat(folder, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
                let file = File::from(file.trying("making a file", &path)?);
                self.content(&file, *size, archive, &path)?;
                self.dress(file.as_fd(), entry, &path)?;
            }
            Kind::Folder => {
                let parent = tree.enter(parents, &mut archive.budget)?;
                let folder = match open_folder(parent, name) {
                    Ok(there) => there,
                    Err(_) => {
                        make_way(parent, name, &path)?;
                        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))
                            .and_then(|()| open_folder(parent, name))
                            .trying("making a folder", &path)?
                    }
                };
                self.dress(folder.as_fd(), entry, &path)?;
            }
            Kind::Symlink { target } => {
                let folder = tree.enter(parents, &mut archive.budget)?;
                make_way(folder, name, &path)?;
                rustix::fs::symlinkat(OsStr::from_bytes(target), folder, name)
                    .trying("making a link", &path)?;
                dress_by_name(folder, name, entry, &path)?;
                self.counts.attributes_left_out += entry.attributes.len() as u64;
            }
            Kind::HardLink { target } => hard_link(target, parents, name, tree, archive, &path)?,
            Kind::Fifo => {
                let folder = tree.enter(parents, &mut archive.budget)?;
                make_way(folder, name, &path)?;
                rustix::fs::mknodat(folder, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
                    .trying("making a pipe", &path)?;
                dress_by_name(folder, name, entry, &path)?;
                // It was made a moment ago, and is no link.
                rustix::fs::chmodat(folder, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())
                    .trying("setting permissions", &path)?;
                self.counts.attributes_left_out += entry.attributes.len() as u64;
            }
        }
        self.counts.made += 1;
        Ok(())
    }

    fn root(&mut self, entry: &Entry, tree: &mut Tree, path: &Path) -> Result<(), UnpackError> {
        if entry.kind != Kind::Folder {
            return Err(UnpackError::FolderInTheWay { path: path.to_owned() });
        }
        self.dress(tree.root(), entry, path)?;
        tree.set_root_mtime(mtime(entry));
        Ok(())
    }

    /// Writes the content. What is zeroes through and through is left as a hole.
    fn content<R: Read>(
        &mut self,
        file: &File,
        size: u64,
        archive: &mut Archive<R>,
        path: &Path,
    ) -> Result<(), UnpackError> {
        let mut written_to = 0;
        let mut at = 0;
        loop {
            let length = archive.read_content(&mut self.buffer)?;
            if length == 0 {
                break;
            }
            let chunk = &self.buffer[..length];
            if chunk.iter().any(|byte| *byte != 0) {
                file.write_all_at(chunk, at).trying("writing", path)?;
                written_to = at + length as u64;
            }
            at += length as u64;
        }
        if written_to != size {
            file.set_len(size).trying("setting the length", path)?;
        }
        Ok(())
    }

    /// Owner, permissions, attributes and time, in this order: a new owner clears set-uid bits and
    /// capabilities.
    fn dress(&mut self, what: BorrowedFd<'_>, entry: &Entry, path: &Path) -> Result<(), UnpackError> {
        let (uid, gid) = owner(entry);
        rustix::fs::fchown(what, uid, gid).trying("setting the owner", path)?;
        rustix::fs::fchmod(what, Mode::from_raw_mode(entry.mode)).trying("setting permissions", path)?;
        for (name, value) in &entry.attributes {
            if !is_for_images(name) {
                self.counts.attributes_left_out += 1;
                continue;
            }
            match rustix::fs::fsetxattr(what, name.as_slice(), value, XattrFlags::empty()) {
                Ok(()) => {}
                // The file system has none, has no room for it, or the kernel does not like it.
                Err(
                    Errno::NOTSUP | Errno::PERM | Errno::INVAL | Errno::RANGE | Errno::TOOBIG | Errno::NOSPC,
                ) => {
                    self.counts.attributes_left_out += 1;
                }
                Err(error) => return Err(error).trying("setting an attribute", path),
            }
        }
        rustix::fs::futimens(what, &both(mtime(entry))).trying("setting the time", path)
    }
}

/// Attributes an image may set. `trusted.*` would let it rewrite the layers it is part of, and so
/// would overlay's own ones where it keeps them under `user.`.
fn is_for_images(name: &[u8]) -> bool {
    name == b"security.capability"
        || (name.starts_with(b"user.") && !name.starts_with(b"user.overlay.") && !name.contains(&0))
}

/// Removes what has the name already, unless it is a folder. The last entry of a name counts.
fn make_way(folder: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), UnpackError> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => Err(UnpackError::FolderInTheWay { path: path.to_owned() }),
        Err(error) => Err(error).trying("replacing", path),
    }
}

fn hard_link<R: Read>(
    target: &RootPath,
    parents: &[std::ffi::OsString],
    name: &OsStr,
    tree: &mut Tree,
    archive: &mut Archive<R>,
    path: &Path,
) -> Result<(), UnpackError> {
    let refused = || UnpackError::HardLink { path: path.to_owned(), target: target.display() };
    let (target_parents, target_name) = target.split().ok_or_else(refused)?;
    let target_folder = match tree.look(target_parents) {
        Err(UnpackError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(refused());
        }
        answer => answer?,
    };
    let inode = |folder: BorrowedFd<'_>, name: &OsStr| {
        let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        found.ok().map(|found| (FileType::from_raw_mode(found.st_mode), found.st_ino))
    };
    let there = inode(target_folder.as_fd(), target_name);
    let there = there.filter(|(kind, _)| *kind != FileType::Directory).ok_or_else(refused)?;
    let folder = tree.enter(parents, &mut archive.budget)?;
    if inode(folder, name) == Some(there) {
        // A link to itself, or named twice: replacing it could remove what it leads to.
        return Ok(());
    }
    make_way(folder, name, path)?;
    // Without a flag, a link is linked to and not followed.
    rustix::fs::linkat(target_folder, target_name, folder, name, AtFlags::empty())
        .trying("making a hard link", path)
}

/// For what cannot be opened without following or waiting.
fn dress_by_name(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    entry: &Entry,
    path: &Path,
) -> Result<(), UnpackError> {
    let (uid, gid) = owner(entry);
    rustix::fs::chownat(folder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        .trying("setting the owner", path)?;
    rustix::fs::utimensat(folder, name, &both(mtime(entry)), AtFlags::SYMLINK_NOFOLLOW)
        .trying("setting the time", path)
}

fn owner(entry: &Entry) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))
}

fn mtime(entry: &Entry) -> Timespec {
    Timespec { tv_sec: entry.mtime.0, tv_nsec: entry.mtime.1.into() }
}
