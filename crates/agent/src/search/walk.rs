//! Every file below a folder, in the order of their paths.
//!
//! Links are not followed, so there are no cycles. What cannot be read is passed over; whoever visits is
//! told of what only has a path that is too long for the system.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, open, statat};
use rustix::io::Errno;

use crate::error::CallError;

use super::Stop;
use super::ignored::{Present, Rules};

/// Bytes of directory entries read at once.
const ENTRIES_BYTES: usize = 32 << 10;

/// After so many entries it is asked whether to go on.
const CHECK_EVERY: usize = 256;

/// What is walked.
#[derive(Clone, Copy)]
pub(super) struct Options {
    /// Also what is ignored, and `.git`.
    pub(super) include_ignored: bool,
    /// Also names that begin with a dot.
    pub(super) hidden: bool,
}

/// Sees what is found. Paths relative to the start come as bytes.
pub(super) trait Visitor {
    /// Whether to look into a folder.
    fn enters(&mut self, relative: &[u8]) -> bool;

    /// A file, or a link to something; not a link to look into.
    fn file(&mut self, path: &Path, relative: &[u8], is_link: bool) -> Result<ControlFlow<()>, CallError>;

    /// A folder to look into whose path is longer than paths may be: what is in it is not seen.
    fn too_deep(&mut self);
}

/// Walks everything below `root`, which must be a folder.
pub(super) fn walk(
    root: &Path,
    options: Options,
    stop: &Stop,
    visitor: &mut impl Visitor,
) -> Result<(), CallError> {
    let mut walk =
        Walk { path: root.as_os_str().as_bytes().to_vec(), options, stop, seen: 0, buffer: Vec::new() };
    walk.buffer.resize(ENTRIES_BYTES, MaybeUninit::uninit());
    let root_length = walk.path.len() + usize::from(!walk.path.ends_with(b"/"));
    let rules = if options.include_ignored { None } else { Rules::above(root) };
    let first = walk.read(OFlags::empty()).map_err(CallError::file(root))?;
    let mut stack = vec![walk.enter(first, rules)];
    while let Some(folder) = stack.last_mut() {
        walk.path.truncate(folder.path_length);
        let Some(item) = folder.names.items.pop() else {
            stack.pop();
            continue;
        };
        walk.seen += 1;
        if walk.seen.is_multiple_of(CHECK_EVERY) {
            stop.check()?;
        }
        if !walk.path.ends_with(b"/") {
            walk.path.push(b'/');
        }
        walk.path.extend_from_slice(folder.names.name(&item));
        let path = Path::new(OsStr::from_bytes(&walk.path));
        let is_folder = item.kind == Kind::Folder;
        if folder.rules.as_ref().is_some_and(|rules| rules.leave_out(path, is_folder)) {
            continue;
        }
        let relative = walk.path.get(root_length..).unwrap_or_default();
        if !is_folder {
            if visitor.file(path, relative, item.kind == Kind::Link)?.is_break() {
                return Ok(());
            }
        } else if visitor.enters(relative) {
            let rules = folder.rules.clone();
            match walk.read(OFlags::NOFOLLOW) {
                Ok(names) => {
                    let folder = walk.enter(names, rules);
                    stack.push(folder);
                }
                Err(Errno::NAMETOOLONG) => visitor.too_deep(),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

struct Walk<'a> {
    /// Where it stands.
    path: Vec<u8>,
    options: Options,
    stop: &'a Stop,
    seen: usize,
    buffer: Vec<MaybeUninit<u8>>,
}

struct Folder {
    path_length: usize,
    /// The last comes first.
    names: Names,
    rules: Option<Arc<Rules>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Link,
}

struct Item {
    start: u32,
    end: u32,
    kind: Kind,
}

/// The names of a folder, close together: there may be a great many.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    items: Vec<Item>,
    present: Present,
}

impl Names {
    fn name(&self, item: &Item) -> &[u8] {
        self.bytes.get(item.start as usize..item.end as usize).unwrap_or_default()
    }

    /// The greatest first. A folder stands where its files will: after `a.x`, before `ab`.
    fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |item: &Item| {
            let name = bytes.get(item.start as usize..item.end as usize).unwrap_or_default();
            let end: &[u8] = if item.kind == Kind::Folder { b"/" } else { b"" };
            (name, end)
        };
        self.items.sort_unstable_by(|one, two| {
            let ((one, one_end), (two, two_end)) = (key(one), key(two));
            two.iter().chain(two_end).cmp(one.iter().chain(one_end))
        });
    }
}

impl Walk<'_> {
    fn enter(&self, mut names: Names, rules: Option<Arc<Rules>>) -> Folder {
        names.sort();
        let rules = if self.options.include_ignored {
            None
        } else {
            Rules::within(Path::new(OsStr::from_bytes(&self.path)), names.present, rules)
        };
        Folder { path_length: self.path.len(), names, rules }
    }

    /// The names in the folder it stands in.
    fn read(&mut self, extra: OFlags) -> Result<Names, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK | extra;
        let folder = open(OsStr::from_bytes(&self.path), flags, Mode::empty())?;
        let mut names = Names::default();
        let mut entries = RawDir::new(&folder, &mut self.buffer);
        let mut read = 0;
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else { break };
            read += 1;
            if read % CHECK_EVERY == 0 && self.stop.check().is_err() {
                // Said again, and heard, by the walk.
                break;
            }
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            names.present.note(name);
            let is_left_out = (name == b".git" && !self.options.include_ignored)
                || (name.starts_with(b".") && !self.options.hidden);
            if is_left_out {
                continue;
            }
            let Some(kind) = kind(&folder, name, entry.file_type()) else { continue };
            let start = names.bytes.len();
            names.bytes.extend_from_slice(name);
            let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(names.bytes.len())) else {
                // Four gigabytes of names in one folder.
                break;
            };
            names.items.push(Item { start, end, kind });
        }
        Ok(names)
    }
}

fn kind(folder: &OwnedFd, name: &[u8], told: FileType) -> Option<Kind> {
    let known = match told {
        FileType::Unknown => {
            let stat = statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            FileType::from_raw_mode(stat.st_mode)
        }
        known => known,
    };
    match known {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Folder),
        FileType::Symlink => Some(Kind::Link),
        _ => None,
    }
}

/// A name or path as the system sees it.
pub(super) fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
