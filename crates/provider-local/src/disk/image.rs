//! Disk files: copying them, and knowing when they are free.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, SeekFrom, copy_file_range, flock, ioctl_ficlone, seek};
use rustix::io::Errno;

/// A disk is in use by a sandbox that should have ended.
#[derive(Debug, thiserror::Error)]
#[error("the disk is still attached to a loop device")]
pub(crate) struct AttachedElsewhere;

/// Copies a sparse file: shares its blocks where the file system can, and copies nothing but
/// its data where it cannot. The new file must not exist.
pub(crate) fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let target = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to)?;
    if ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    let size = source.metadata()?.len();
    target.set_len(size)?;
    let mut position = 0;
    loop {
        let start = match seek(&source, SeekFrom::Data(position)) {
            Ok(start) => start,
            // No data beyond this point.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(&source, SeekFrom::Hole(start))?;
        copy_range(&source, &target, start, end)?;
        position = end;
    }
}

fn copy_range(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut from, mut to) = (start, start);
    while from < end {
        let wanted = usize::try_from(end - from).unwrap_or(usize::MAX);
        if copy_file_range(source, Some(&mut from), target, Some(&mut to), wanted)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Opens a disk and locks it, as soon as no loop device holds it any more. Holding the file
/// keeps others away; handing it to a loop device hands the lock on.
pub(crate) fn lock_when_detached(image: &Path, deadline: Instant) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(image)?;
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
    use std::os::unix::fs::{FileExt, MetadataExt};

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
