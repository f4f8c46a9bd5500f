//! Makes hosts up, and images of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use emergent_images::minimal::{MinimalError, Options, Plan};

pub(crate) struct Host {
    root: tempfile::TempDir,
}

impl Host {
    /// A host with a shell and nothing else.
    pub(crate) fn new() -> Self {
        let host = Self { root: tempfile::tempdir().unwrap() };
        host.folder("").file("usr/bin/sh", "shell", 0o755).link("bin", "usr/bin");
        host
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn folder(&self, path: &str) -> &Self {
        fs::create_dir_all(self.path(path)).unwrap();
        let mut folder = self.path(path);
        // Whatever the umask.
        while folder.starts_with(self.root.path()) {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
            folder.pop();
        }
        self
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>, mode: u32) -> &Self {
        self.folder(Path::new(path).parent().unwrap().to_str().unwrap());
        fs::write(self.path(path), content).unwrap();
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        self.folder(Path::new(path).parent().unwrap().to_str().unwrap());
        symlink(target, self.path(path)).unwrap();
        self
    }

    pub(crate) fn options(&self) -> Options {
        Options { root: self.root.path().to_owned(), ..Options::default() }
    }

    pub(crate) fn plan(&self) -> Result<Plan, MinimalError> {
        Plan::of_host(&self.options())
    }

    /// What is in its image.
    pub(crate) fn image(&self) -> Image {
        let mut bytes = Vec::new();
        self.plan().unwrap().write_to(&mut bytes).unwrap();
        Image::read(&bytes)
    }
}

/// Entries by their path.
pub(crate) struct Image(BTreeMap<String, Entry>);

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: tar::EntryType,
    pub(crate) mode: u32,
    pub(crate) owner: u64,
    /// Content of a file, target of a link.
    pub(crate) content: String,
}

impl Image {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut entries = BTreeMap::new();
        for entry in tar::Archive::new(bytes).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            if let Some(target) = entry.link_name().unwrap() {
                content = target.to_str().unwrap().to_owned();
            }
            let header = entry.header();
            let kind = header.entry_type();
            let (mode, owner) = (header.mode().unwrap(), header.uid().unwrap());
            let old = entries.insert(path.clone(), Entry { kind, mode, owner, content });
            assert!(old.is_none(), "{path}: twice");
            let parent = Path::new(&path).parent().unwrap().to_str().unwrap();
            assert!(parent.is_empty() || entries.contains_key(parent), "{path}: before its folder");
        }
        Self(entries)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Entry> {
        self.0.get(path).cloned()
    }

    pub(crate) fn content(&self, path: &str) -> Option<String> {
        self.get(path).map(|entry| entry.content)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
