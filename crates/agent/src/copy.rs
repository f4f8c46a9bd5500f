//! Copies folders, for a control plane that cannot reach them itself. Nobody writes to them meanwhile.
//!
//! Files, folders and links, with owners, modes, times, attributes of users', holes, and several names
//! of one file. Sockets and devices are left out: nobody listens behind the one, and nobody here may
//! make the other.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, utimensat};

/// What is read at once. A piece that is all zeros is left as a hole.
const PIECE: usize = 64 << 10;

/// Names of attributes, and one attribute: as much as Linux has.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Where and why copying ended.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct CopyError {
    path: PathBuf,
    error: io::Error,
}

impl CopyError {
    /// Whether there is no room for the copy.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    let path = path.to_owned();
    move |error| CopyError { path, error }
}

/// Copies what is in a folder into another one, which is empty, and gives that its owner and mode. On
/// its own file system, and no link is followed. What was copied is on the disk when this returns.
pub fn copy(from: &Path, to: &Path) -> Result<(), CopyError> {
    let top = fs::symlink_metadata(from).map_err(at(from))?;
    let mut copied = Copied { device: top.dev(), several_names: HashMap::new() };
    // Folders get their times last: filling them changes these.
    let mut folders = vec![(from.to_owned(), to.to_owned(), top)];
    let mut next = 0;
    while let Some((from, to, _)) = folders.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(&from).map_err(at(&from))? {
            let entry = entry.map_err(at(&from))?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let found = fs::symlink_metadata(&source).map_err(at(&source))?;
            if found.is_dir() && found.dev() == copied.device {
                fs::create_dir(&target).map_err(at(&target))?;
                folders.push((source, target, found));
            } else if !found.is_dir() {
                copied.file(&source, &target, &found).map_err(at(&source))?;
            }
        }
    }
    for (from, to, found) in folders.iter().rev() {
        attributes(from, to).and_then(|()| finish(to, found)).map_err(at(to))?;
    }
    File::open(to).and_then(|to| Ok(rustix::fs::syncfs(to)?)).map_err(at(to))
}

struct Copied {
    device: u64,
    /// Where a file was put that has several names.
    several_names: HashMap<u64, PathBuf>,
}

impl Copied {
    fn file(&mut self, from: &Path, to: &Path, found: &Metadata) -> io::Result<()> {
        let kind = found.file_type();
        if kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
            return Ok(());
        }
        if found.nlink() > 1 {
            if let Some(first) = self.several_names.get(&found.ino()) {
                return fs::hard_link(first, to);
            }
            self.several_names.insert(found.ino(), to.to_owned());
        }
        if kind.is_symlink() {
            symlink(fs::read_link(from)?, to)?;
        } else if kind.is_fifo() {
            rustix::fs::mkfifoat(CWD, to, rustix::fs::Mode::from_raw_mode(0o600))?;
        } else {
            content(from, to)?;
            attributes(from, to)?;
        }
        finish(to, found)
    }
}

fn content(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut buffer = vec![0; PIECE];
    let mut position = 0;
    loop {
        let read = source.read(&mut buffer)?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
        if piece.iter().any(|byte| *byte != 0) {
            target.write_all_at(piece, position)?;
        } else if read == PIECE {
            skip_hole(&mut source)?;
        }
        position = source.stream_position()?;
    }
    target.set_len(position)
}

/// Where nothing but a hole follows, goes to its end; where that cannot be told, stays.
fn skip_hole(source: &mut File) -> io::Result<()> {
    let here = source.stream_position()?;
    let data = match rustix::fs::seek(&*source, rustix::fs::SeekFrom::Data(here)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => source.metadata()?.len().max(here),
        Err(_) => here,
    };
    source.seek(SeekFrom::Start(data)).map(drop)
}

/// Those that a user has set. Others need privileges, and say something to this kernel.
fn attributes(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = vec![0; MAX_ATTRIBUTE_BYTES];
    // There are file systems without any.
    let Ok(length) = rustix::fs::llistxattr(from, &mut names[..]) else { return Ok(()) };
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") {
            continue;
        }
        let mut value = vec![0; MAX_ATTRIBUTE_BYTES];
        let Ok(length) = rustix::fs::lgetxattr(from, name, &mut value[..]) else { continue };
        rustix::fs::lsetxattr(to, name, value.get(..length).unwrap_or_default(), XattrFlags::empty())?;
    }
    Ok(())
}

/// Owner, then mode, which a change of owner may have changed; then times.
fn finish(to: &Path, found: &Metadata) -> io::Result<()> {
    std::os::unix::fs::lchown(to, Some(found.uid()), Some(found.gid()))?;
    if !found.is_symlink() {
        fs::set_permissions(to, fs::Permissions::from_mode(found.mode() & 0o7777))?;
    }
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_like_what_it_is_of() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (inside, copied) = (|name: &str| from.path().join(name), |name: &str| to.path().join(name));
        fs::create_dir(inside("folder")).unwrap();
        fs::write(inside("folder/file"), vec![7; 3 * PIECE + 5]).unwrap();
        fs::hard_link(inside("folder/file"), inside("second")).unwrap();
        symlink("/nowhere", inside("link")).unwrap();
        rustix::fs::mkfifoat(CWD, inside("fifo"), rustix::fs::Mode::from_raw_mode(0o640)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(inside("socket")).unwrap();
        let sparse = File::create(inside("sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.write_all_at(b"middle", 32 << 20).unwrap();
        fs::set_permissions(inside("folder/file"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::set_permissions(inside("folder"), fs::Permissions::from_mode(0o1700)).unwrap();
        fs::set_permissions(from.path(), fs::Permissions::from_mode(0o777)).unwrap();

        copy(from.path(), to.path()).unwrap();

        for name in ["", "folder", "folder/file", "second", "link", "fifo", "sparse"] {
            let (one, two) =
                (fs::symlink_metadata(inside(name)).unwrap(), fs::symlink_metadata(copied(name)).unwrap());
            let looks = |found: &Metadata| (found.mode(), found.uid(), found.mtime(), found.mtime_nsec());
            assert_eq!(looks(&one), looks(&two), "{name}");
        }
        assert_eq!(fs::read(inside("second")).unwrap(), fs::read(copied("second")).unwrap());
        assert_eq!(fs::metadata(copied("second")).unwrap().nlink(), 2);
        assert_eq!(fs::read_link(copied("link")).unwrap(), Path::new("/nowhere"));
        assert!(!copied("socket").exists());
        assert_eq!(fs::read(inside("sparse")).unwrap(), fs::read(copied("sparse")).unwrap());
        assert!(fs::metadata(copied("sparse")).unwrap().blocks() * 512 < 1 << 20);
        assert!(copy(from.path(), to.path()).is_err(), "nothing is overwritten");
        assert!(copy(&inside("none"), to.path()).is_err());
    }
}
