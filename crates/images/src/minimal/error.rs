//! Why no image was made of the host's system.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// No image could be made of the host's system.
#[derive(Debug, thiserror::Error)]
pub enum MinimalError {
    /// A file or folder of the host could not be read.
    #[error("{}: {action}: {source}", path.display())]
    Host {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// A file became shorter or something else between being listed and being read.
    #[error("{}: was changed while the image was made; is the system being upgraded?", path.display())]
    Changed {
        /// Which one.
        path: PathBuf,
    },
    /// There is no shell where one is expected, so this is not the layout an image can be made of.
    #[error("{}: has no shell in bin, so its system folders make no image", root.display())]
    NoShell {
        /// The root that was looked at.
        root: PathBuf,
    },
    /// Larger than an image may be.
    #[error(
        "the host's system folders would make an image of {} MiB, more than the {} MiB it may have; largest: {}",
        bytes >> 20,
        allowed >> 20,
        Listed(largest)
    )]
    TooLarge {
        /// Bytes of all files.
        bytes: u64,
        /// How many there may be.
        allowed: u64,
        /// The largest folders, with their bytes.
        largest: Vec<(PathBuf, u64)>,
    },
    /// More files and folders than an image may have.
    #[error("the host's system folders have more than {allowed} files")]
    TooMany {
        /// How many there may be.
        allowed: usize,
    },
    /// The image could not be passed on.
    #[error("the image could not be written: {0}")]
    Output(#[from] io::Error),
}

struct Listed<'a>(&'a [(PathBuf, u64)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (path, bytes)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}/{} ({} MiB)", path.display(), bytes >> 20)?;
        }
        Ok(())
    }
}
