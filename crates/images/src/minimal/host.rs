//! The host's root, seen through the eyes of an account without rights: what not everybody may
//! read is not there.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::error::MinimalError;
use super::items::{Content, Items};

/// Folders at the root that hold the system; on most hosts all but `usr` are links into it.
pub(super) const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

pub(super) struct Host {
    root: PathBuf,
    /// The links among the system folders: `bin` to `usr/bin`.
    merged: BTreeMap<PathBuf, PathBuf>,
    /// Folders that were looked at, and whether everybody may enter and list them.
    open: RefCell<HashMap<PathBuf, bool>>,
}

impl Host {
    pub(super) fn new(root: &Path) -> Self {
        let merged = SYSTEM.iter().filter_map(|name| {
            let target = fs::read_link(root.join(name)).ok()?;
            Some((PathBuf::from(name), target.strip_prefix("/").map(Path::to_owned).unwrap_or(target)))
        });
        let merged = merged.collect();
        Self { root: root.to_owned(), merged, open: RefCell::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn merged(&self) -> impl Iterator<Item = (&PathBuf, &PathBuf)> {
        self.merged.iter()
    }

    /// Where an absolute path of the system lies below the root: `/bin/sh` is `usr/bin/sh` where
    /// `/bin` is a link. Nothing for paths with `..`.
    pub(super) fn place(&self, path: &Path) -> Option<PathBuf> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let first: PathBuf = relative.components().take(1).collect();
        let rest: PathBuf = relative.components().skip(1).collect();
        match self.merged.get(&first) {
            Some(target) if rest.as_os_str().is_empty() => Some(target.clone()),
            Some(target) => Some(target.join(rest)),
            None => Some(relative.to_owned()),
        }
    }

    /// A text that everybody may read, if it is there.
    pub(super) fn read(&self, path: &Path) -> Option<String> {
        let metadata = self.metadata(path)?;
        let readable = metadata.is_file() && metadata.mode() & 0o004 != 0 && self.is_reachable(path);
        let text = readable.then(|| fs::read(self.root.join(path)).ok())??;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    pub(super) fn metadata(&self, path: &Path) -> Option<fs::Metadata> {
        fs::symlink_metadata(self.root.join(path)).ok()
    }

    /// The names in a folder, sorted; none where it is missing or closed.
    pub(super) fn names(&self, folder: &Path) -> Result<Vec<std::ffi::OsString>, MinimalError> {
        if !self.is_open(folder) {
            return Ok(Vec::new());
        }
        let path = self.root.join(folder);
        let failed = |source: io::Error| MinimalError::Host { action: "listing", path: path.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        Ok(names)
    }

    /// Takes one file or link over, as far as everybody may read it. What it is besides (set-uid,
    /// attributes, owner, write permissions for others) is not taken along, and neither are
    /// devices, sockets and pipes. Folders are made by what lies in them, and by themselves where
    /// they are named.
    pub(super) fn take(&self, path: &Path, items: &mut Items) -> Result<(), MinimalError> {
        let Some(metadata) = self.metadata(path).filter(|_| self.is_reachable(path)) else { return Ok(()) };
        if metadata.is_symlink() {
            let source = self.root.join(path);
            let target = fs::read_link(&source).map_err(|error| MinimalError::Host {
                action: "reading a link",
                path: source,
                source: error,
            })?;
            return items.link(path, target);
        }
        if metadata.is_dir() {
            return if self.is_open(path) { items.folder(path, 0o755) } else { Ok(()) };
        }
        if !metadata.is_file() || metadata.mode() & 0o004 == 0 {
            return Ok(());
        }
        let content = Content::HostFile {
            source: self.root.join(path),
            size: metadata.len(),
            mtime: u64::try_from(metadata.mtime()).unwrap_or(0),
        };
        let shared = (metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino()));
        let mode = 0o644 | (metadata.mode() & 0o111);
        items.host_file(path, content, mode, shared)
    }

    fn is_reachable(&self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|folder| self.is_open(folder))
    }

    fn is_open(&self, folder: &Path) -> bool {
        if let Some(known) = self.open.borrow().get(folder) {
            return *known;
        }
        // Links on the way are the host's own arrangement.
        let open = fs::metadata(self.root.join(folder))
            .is_ok_and(|metadata| metadata.is_dir() && metadata.mode() & 0o005 == 0o005);
        self.open.borrow_mut().insert(folder.to_owned(), open);
        open
    }
}
