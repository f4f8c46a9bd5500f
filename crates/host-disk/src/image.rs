//! Disk files: copying them, and knowing when they are free.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, SeekFrom, copy_file_range, flock, ioctl_ficlone, seek};
use rustix::io::Errno;

/// A disk is in use by a sandbox that should have ended.
#[derive(Debug, thiserror::Error)]
#[error("the disk is still attached to a loop device")]
pub struct AttachedElsewhere;

/// How much is copied before somebody asks again whether to go on.
const STRIDE: u64 = 64 << 20;

/// How much is copied at once where the kernel does not copy by itself.
const BUFFER: usize = 1 << 20;

/// Copies a sparse file: shares its blocks where the file system can, and copies nothing but
/// its data where it cannot. The new file must not exist.
pub fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    copy_sparse_while(&File::open(from)?, to, &|| Ok(())).map(drop)
}

/// The same for an open file; `go_on` ends it early. Gives the copy, which may still be in memory
/// alone.
pub(crate) fn copy_sparse_while(
    source: &File,
    to: &Path,
    go_on: &dyn Fn() -> io::Result<()>,
) -> io::Result<File> {
    let target = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to)?;
    if ioctl_ficlone(&target, source).is_err() {
        copy_data(source, &target, go_on)?;
    }
    Ok(target)
}

fn copy_data(source: &File, target: &File, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    target.set_len(source.metadata()?.len())?;
    let mut position = 0;
    loop {
        let start = match seek(source, SeekFrom::Data(position)) {
            Ok(start) => start,
            // No data beyond this point.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(source, SeekFrom::Hole(start))?;
        position = start;
        while position < end {
            go_on()?;
            let until = end.min(position + STRIDE);
            copy_range(source, target, position, until)?;
            position = until;
        }
    }
}

fn copy_range(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut from, mut to) = (start, start);
    while from < end {
        let wanted = usize::try_from(end - from).unwrap_or(usize::MAX);
        match copy_file_range(source, Some(&mut from), target, Some(&mut to), wanted) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            // Between different file systems.
            Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                return copy_through_memory(source, target, from, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Zeros are left out: the target is new, and has them already.
fn copy_through_memory(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut position = start;
    while position < end {
        let wanted = usize::try_from(end - position).unwrap_or(BUFFER).min(BUFFER);
        let chunk = &mut buffer[..wanted];
        source.read_exact_at(chunk, position)?;
        if chunk.iter().any(|byte| *byte != 0) {
            target.write_all_at(chunk, position)?;
        }
        position += wanted as u64;
    }
    Ok(())
}

/// Opens a disk and locks it, as soon as no loop device holds it any more. Holding the file
/// keeps others away; handing it to a loop device hands the lock on.
pub fn lock_when_detached(image: &Path, deadline: Instant) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(image)?;
    let mut pause = Duration::from_micros(500);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, AttachedElsewhere));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_copy_has_the_data_and_the_holes() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let source = File::create(&from).unwrap();
        source.set_len(64 << 20).unwrap();
        source.write_all_at(b"first", 0).unwrap();
        source.write_all_at(b"middle", 20 << 20).unwrap();
        source.sync_all().unwrap();

        copy_sparse(&from, &to).unwrap();

        let copy = std::fs::metadata(&to).unwrap();
        assert_eq!(copy.len(), 64 << 20);
        assert!(copy.blocks() * 512 < 1 << 20, "{} blocks", copy.blocks());
        assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap());
        assert!(copy_sparse(&from, &to).is_err(), "an existing disk is never overwritten");
    }

    #[test]
    fn a_copy_through_memory_has_the_data_and_the_holes() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name| {
            let options = OpenOptions::new().read(true).write(true).create_new(true).clone();
            options.open(folder.path().join(name)).unwrap()
        };
        let (source, target) = (open("from"), open("to"));
        let size = (8 << 20) + 4097;
        source.set_len(size).unwrap();
        source.write_all_at(b"middle", (3 << 20) - 2).unwrap();
        source.write_all_at(b"last", size - 4).unwrap();
        target.set_len(size).unwrap();

        copy_through_memory(&source, &target, 0, size).unwrap();

        assert!(target.metadata().unwrap().blocks() * 512 < 4 << 20);
        let read = |name| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read("from") == read("to"));
    }

    #[test]
    fn a_copy_ends_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        std::fs::write(&from, "data").unwrap();
        let source = File::open(&from).unwrap();
        let target = File::create(folder.path().join("to")).unwrap();
        let ended = copy_data(&source, &target, &|| Err(io::ErrorKind::TimedOut.into())).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_locked_disk_is_not_opened_twice() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.img");
        File::create(&image).unwrap();
        let soon = || Instant::now() + Duration::from_millis(20);
        let held = lock_when_detached(&image, soon()).unwrap();
        let busy = lock_when_detached(&image, soon()).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(held);
        lock_when_detached(&image, soon()).unwrap();
    }
}
