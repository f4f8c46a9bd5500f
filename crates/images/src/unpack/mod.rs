//! Unpacks the root of an image, which is not trusted, into a folder of the host.
//!
//! ```text
//!  tar stream ─► archive: headers, bounded ─► root_path: names below the root
//!                                                  │
//!            partial: <folder>.partial, locked ◄── place ◄── tree: folders by descriptor
//!                  │ all on disk
//!                  ▼
//!               <folder>
//! ```
//!
//! **Nothing outside the folder is touched, by construction.** A path is a list of names, none of
//! them `..`; each name is opened from the folder before it and never over a link; things are made
//! anew under their name, never written through something that is there. What a link leads to is
//! text. So there is no order of entries that leads elsewhere.
//!
//! **What is kept:** owners, permissions with set-uid and set-gid bits (programs in the root rely
//! on them; the folder above must be closed to other accounts, which is checked), times, hard
//! links, links, pipes, the attributes `user.*` and `security.capability`. Runs of zeroes become
//! holes.
//!
//! **What is not:** device nodes (and with them whiteouts), attributes that could change the layers
//! of an overlay. Sparse maps, entries of unknown kind, paths over links and two things of one name
//! of which one is a folder and the other is not are refused: no export has them.
//!
//! **All or nothing.** The folder appears when everything is in it and on disk. Whatever fails, is
//! cut off, cancelled or crashes leaves at most a `<folder>.partial`, which is removed by the next
//! attempt and by [`remove_leftovers`].

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::Mode;

mod archive;
mod error;
mod extended;
mod limits;
mod partial;
mod place;
mod root_path;
mod stream;
mod tree;

pub use error::{Limit, UnpackError};
pub use limits::Limits;
pub use partial::remove_leftovers;
pub use place::Counts;
pub use stream::unpack_stream;

use archive::Archive;
use error::Trying;
use limits::Budget;
use partial::Partial;
use place::Placer;
use tree::Tree;

/// An archive that has become a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// What was made of it.
    pub counts: Counts,
    /// How long the archive was, up to its end mark.
    pub bytes: u64,
    /// From the first byte until everything was on disk.
    pub took: Duration,
}

/// Unpacks an archive into a folder that is not there yet. Blocks; `limits.time` is looked at
/// whenever bytes arrive. Needs to be root where the archive has owners other than the caller.
///
/// The folder above is made with mode 0700 where it is missing, and must not be open to others.
pub fn unpack(source: impl Read, folder: &Path, limits: &Limits) -> Result<Unpacked, UnpackError> {
    let started = Instant::now();
    let partial = Partial::begin(folder)?;
    let root = partial.root()?;
    // For archives that do not mention their root.
    rustix::fs::fchmod(&root, Mode::from_raw_mode(0o755)).trying("setting permissions", folder)?;

    let mut tree = Tree::new(root)?;
    let mut archive = Archive::new(source, Budget::new(limits));
    let mut placer = Placer::new();
    while let Some(entry) = archive.next()? {
        placer.place(&entry, &mut tree, &mut archive)?;
    }
    drop(tree.finish()?);
    partial.finish()?;
    Ok(Unpacked { counts: placer.counts, bytes: archive.budget.bytes(), took: started.elapsed() })
}
