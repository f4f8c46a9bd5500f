//! What a folder takes on the host's disks.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxAttributes, StatxFlags, statx};

/// The unit in which a file's blocks are counted, whatever its file system has.
const BLOCK: u64 = 512;

/// The bytes that a folder and everything below it take. Holes of files take none. No link is followed, and what
/// is mounted there is left out: it is taken somewhere else.
pub(super) fn allocated_below(folder: &Path) -> io::Result<u64> {
    // What is in memory alone has no blocks yet. Disks that are mounted in other namespaces cannot be named here,
    // so all are written out.
    rustix::fs::sync();
    Ok(blocks_of(folder, look(folder)?)? * BLOCK)
}

fn blocks_of(path: &Path, found: Statx) -> io::Result<u64> {
    let mut blocks = found.stx_blocks;
    if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory {
        for entry in fs::read_dir(path)? {
            let inner = entry?.path();
            let found = look(&inner)?;
            if !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
                blocks += blocks_of(&inner, found)?;
            }
        }
    }
    Ok(blocks)
}

fn look(path: &Path) -> io::Result<Statx> {
    Ok(statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_counts_and_holes_and_links_do_not() {
        const MIB: u64 = 1 << 20;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("large"), vec![b'x'; 4 << 20]).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).unwrap();
        fs::File::create(folder.path().join("sparse")).unwrap().set_len(64 * MIB).unwrap();
        let before = allocated_below(folder.path()).unwrap();
        assert!(before < MIB / 4, "{before}");
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), vec![b'x'; 1 << 20]).unwrap();
        let added = allocated_below(folder.path()).unwrap() - before;
        assert!((MIB..MIB + MIB / 4).contains(&added), "{added}");
        assert!(allocated_below(&folder.path().join("none")).is_err());
    }
}
