//! What an image is made of, in an order in which it can be unpacked: folders before what lies in
//! them, nothing twice, nothing below a link.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::error::MinimalError;

/// One entry of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// From the image's root.
    pub(super) path: PathBuf,
    pub(super) content: Content,
    pub(super) mode: u32,
    /// User and group.
    pub(super) owner: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Folder,
    /// A file of the image's own.
    Text(String),
    /// A file of the host's, read when the image is written.
    HostFile {
        source: PathBuf,
        size: u64,
        mtime: u64,
    },
    Link(PathBuf),
    /// To another path of the image.
    HardLink(PathBuf),
}

/// Identifies a file however many names it has.
pub(super) type Inode = (u64, u64);

pub(super) struct Items {
    list: Vec<Item>,
    /// What is there, and whether it is a folder.
    taken: HashMap<PathBuf, bool>,
    inodes: HashMap<Inode, PathBuf>,
    max_entries: usize,
}

impl Items {
    pub(super) fn new(max_entries: usize) -> Self {
        Self { list: Vec::new(), taken: HashMap::new(), inodes: HashMap::new(), max_entries }
    }

    pub(super) fn list(&self) -> &[Item] {
        &self.list
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.taken.contains_key(path)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.list.iter().map(Item::bytes).sum()
    }

    /// The folders that make it large: their files' bytes, the largest first.
    pub(super) fn largest(&self, count: usize) -> Vec<(PathBuf, u64)> {
        let mut folders: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for item in &self.list {
            let mut folder: PathBuf = item.path.iter().take(3).collect();
            if folder == item.path {
                folder.pop();
            }
            *folders.entry(folder).or_default() += item.bytes();
        }
        let mut folders: Vec<_> = folders.into_iter().collect();
        folders.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        folders.truncate(count);
        folders
    }

    pub(super) fn folder(&mut self, path: impl Into<PathBuf>, mode: u32) -> Result<(), MinimalError> {
        self.add(Item { path: path.into(), content: Content::Folder, mode, owner: 0 })
    }

    pub(super) fn link(
        &mut self,
        path: impl Into<PathBuf>,
        target: impl Into<PathBuf>,
    ) -> Result<(), MinimalError> {
        self.add(Item { path: path.into(), content: Content::Link(target.into()), mode: 0o777, owner: 0 })
    }

    pub(super) fn text(
        &mut self,
        path: impl Into<PathBuf>,
        text: impl Into<String>,
        mode: u32,
    ) -> Result<(), MinimalError> {
        self.add(Item { path: path.into(), content: Content::Text(text.into()), mode, owner: 0 })
    }

    /// A file of the host's; its further names become hard links.
    pub(super) fn host_file(
        &mut self,
        path: &Path,
        content: Content,
        mode: u32,
        shared: Option<Inode>,
    ) -> Result<(), MinimalError> {
        let first = shared.and_then(|inode| self.inodes.get(&inode).cloned());
        let content = first.map_or(content, Content::HardLink);
        self.add(Item { path: path.to_owned(), content, mode, owner: 0 })?;
        if let Some(inode) = shared
            && self.has(path)
        {
            self.inodes.entry(inode).or_insert_with(|| path.to_owned());
        }
        Ok(())
    }

    /// Adds something with the folders on its way, unless its name is taken or leads over a link.
    pub(super) fn add(&mut self, item: Item) -> Result<(), MinimalError> {
        if self.has(&item.path) || !self.reach(&item.path)? {
            return Ok(());
        }
        if self.list.len() >= self.max_entries {
            return Err(MinimalError::TooMany { allowed: self.max_entries });
        }
        self.taken.insert(item.path.clone(), item.content == Content::Folder);
        self.list.push(item);
        Ok(())
    }

    fn reach(&mut self, path: &Path) -> Result<bool, MinimalError> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return Ok(true);
        };
        match self.taken.get(parent) {
            Some(is_folder) => Ok(*is_folder),
            None => {
                self.folder(parent, 0o755)?;
                Ok(self.has(parent))
            }
        }
    }
}

impl Item {
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Text(text) => text.len() as u64,
            Content::HostFile { size, .. } => *size,
            Content::Folder | Content::Link(_) | Content::HardLink(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(items: &Items) -> Vec<&str> {
        items.list().iter().map(|item| item.path.to_str().unwrap()).collect()
    }

    #[test]
    fn folders_come_first_and_nothing_twice() {
        let mut items = Items::new(100);
        items.text("usr/bin/a", "x", 0o755).unwrap();
        items.text("usr/bin/a", "other", 0o755).unwrap();
        items.folder("usr", 0o755).unwrap();
        assert_eq!(paths(&items), ["usr", "usr/bin", "usr/bin/a"]);
    }

    #[test]
    fn nothing_lies_below_a_link() {
        let mut items = Items::new(100);
        items.link("usr/lib", "/elsewhere").unwrap();
        items.text("usr/lib/deep/a", "x", 0o755).unwrap();
        assert_eq!(paths(&items), ["usr", "usr/lib"]);
    }

    #[test]
    fn further_names_are_hard_links() {
        let mut items = Items::new(100);
        let file = || Content::HostFile { source: "/x".into(), size: 5, mtime: 0 };
        items.host_file(Path::new("a"), file(), 0o755, Some((1, 2))).unwrap();
        items.host_file(Path::new("b"), file(), 0o755, Some((1, 2))).unwrap();
        items.host_file(Path::new("c"), file(), 0o755, Some((1, 3))).unwrap();
        assert_eq!(items.list()[1].content, Content::HardLink("a".into()));
        assert_eq!(items.bytes(), 10);
    }

    #[test]
    fn entries_are_bounded() {
        let mut items = Items::new(2);
        items.text("a/b", "x", 0o644).unwrap();
        assert!(matches!(items.text("c", "x", 0o644), Err(MinimalError::TooMany { allowed: 2 })));
    }
}
