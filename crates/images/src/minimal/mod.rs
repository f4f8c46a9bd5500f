//! An image made of the host's own system, for hosts that have neither the workspace image nor a
//! way to get it.
//!
//! ```text
//!  packages (dpkg) ──┐
//!  or folders ───────┼─► items: what, where, in order ─► Plan ─► write: tar stream
//!  settings, accounts┘
//! ```
//!
//! On a Debian host it has the packages of the workspace image, as far as they are installed, and
//! what they need: nothing that lies beside packages comes along, and `apt-get install` works,
//! since the database of packages says what is there. Elsewhere it has `/usr` but for a list of
//! what is large and of no use.
//!
//! **There is nothing in it that not every account of the host may read**, and no account, key,
//! address or answer of the host's: `/etc` is made anew from a list of names, and from settings
//! that are still as their package brought them. Set-uid bits, attributes and owners stay behind.
//!
//! A plan knows how large the image will be before a byte of it is written, so one that is too
//! large is refused, with what makes it so. Files are read when the image is written; one that has
//! changed by then ends it.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::Stream;

mod accounts;
mod error;
mod exclusions;
mod folders;
mod host;
mod items;
mod packages;
mod settings;
mod write;

pub use error::MinimalError;

use crate::chunks;
use host::Host;
use items::Items;
use write::Writer;

/// What to make an image of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The root of the host.
    pub root: PathBuf,
    /// What is wanted in it, where the host's packages are known.
    pub packages: Vec<String>,
    /// Bytes of all files.
    pub max_bytes: u64,
    /// Files and folders.
    pub max_entries: usize,
}

impl Default for Options {
    /// This host, with the packages of the workspace image.
    fn default() -> Self {
        Self {
            root: "/".into(),
            // The smallest Debian has apt, though a system works without it.
            packages: crate::workspace::packages().chain(["apt"]).map(str::to_owned).collect(),
            max_bytes: 3 << 30,
            max_entries: 400_000,
        }
    }
}

/// Where the system in an image comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Packages of the host, this many.
    Packages(usize),
    /// The host's system folders.
    Folders,
}

/// What an image will be.
pub struct Plan {
    items: Items,
    bytes: u64,
    origin: Origin,
}

/// An image that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Files, folders and links.
    pub entries: usize,
    /// Bytes of the files.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

impl Plan {
    /// Looks at the host. Blocks, for a second or two.
    pub fn of_host(options: &Options) -> Result<Self, MinimalError> {
        let host = Host::new(&options.root);
        let mut items = Items::new(options.max_entries);
        settings::root_folders(&host, &mut items)?;
        let origin = match packages::take(&host, &options.packages, &mut items)? {
            Some(count) => Origin::Packages(count),
            None => {
                folders::take(&host, &mut items)?;
                Origin::Folders
            }
        };
        settings::take(&host, &mut items)?;

        let has_shell = ["/bin/sh", "/usr/bin/sh"]
            .iter()
            .any(|shell| host.place(shell.as_ref()).is_some_and(|shell| items.has(&shell)));
        if !has_shell {
            return Err(MinimalError::NoShell { root: options.root.clone() });
        }
        let bytes = items.bytes();
        if bytes > options.max_bytes {
            let largest = items.largest(5);
            return Err(MinimalError::TooLarge { bytes, allowed: options.max_bytes, largest });
        }
        Ok(Self { items, bytes, origin })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files, folders and links.
    pub fn entries(&self) -> usize {
        self.items.list().len()
    }

    /// Where the system comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Writes the image as a tar stream. Blocks. Where it fails, what was written has no end mark,
    /// so that nobody takes it for an image.
    pub fn write_to(&self, out: &mut impl Write) -> Result<Written, MinimalError> {
        let started = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut writer = Writer::new(out, now);
        for item in self.items.list() {
            writer.item(item)?;
        }
        writer.finish()?;
        Ok(Written { entries: self.entries(), bytes: self.bytes, took: started.elapsed() })
    }

    /// The image as a stream of chunks, such as the body of a request. A thread that may block
    /// writes a few chunks ahead, and stops when the stream is dropped. The last item is an error
    /// where the image could not be written to its end.
    ///
    /// Must be called within a Tokio runtime.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, MinimalError>> + Send + 'static {
        chunks::written_by(move |out| {
            let written = self.write_to(out)?;
            tracing::info!(
                entries = written.entries,
                bytes = written.bytes,
                took_ms = written.took.as_millis(),
                "an image of the host's system was written: {} files, {} MiB",
                written.entries,
                written.bytes >> 20,
            );
            Ok(())
        })
    }
}
