//! From the kernel's events to changes.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use emergent_protocol::v1;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags};
use rustix::io::Errno;

use crate::error::CallError;
use crate::files;

use super::folders::{Folders, MAX_FOLDERS, NotWatched};

/// Events of one step, so that none takes long.
const STEP_EVENTS: usize = 512;

/// What is reported one by one of a folder that came with its content.
const MAX_FOUND: usize = 1000;

/// Room for the kernel's events: some hundred.
const BUFFER_BYTES: usize = 16 << 10;

/// One watch.
pub(super) struct Watcher {
    inotify: Arc<OwnedFd>,
    folders: Folders,
    /// What was asked for.
    root: PathBuf,
    root_number: i32,
    /// Only this name in the root's folder: a file is watched through its folder, so that one
    /// which is replaced is still the same file.
    only: Option<OsString>,
    recursive: bool,
    /// The first half of a rename whose second has not come yet.
    half: Option<Half>,
    /// Found by looking through a new folder; the kernel may report them too.
    found: HashSet<PathBuf>,
}

struct Half {
    cookie: u32,
    path: PathBuf,
    directory: bool,
    /// A file of the agent's own, about to take the place of another.
    replaces: bool,
    hidden: bool,
}

/// What a step gave.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<v1::WatchEvent>,
    /// There is more to be read.
    pub(super) more: bool,
    /// The second half of a rename is missing.
    pub(super) half: bool,
    /// What was watched is gone.
    pub(super) ended: bool,
}

impl Batch {
    fn push(&mut self, kind: v1::ChangeKind, path: &Path, directory: bool) {
        let event = v1::WatchEvent {
            kind: kind.into(),
            path: path.to_string_lossy().into_owned(),
            old_path: String::new(),
            directory,
        };
        // A program that writes in small pieces modifies often.
        if self.events.last() != Some(&event) {
            self.events.push(event);
        }
    }

    fn overflow(&mut self) {
        self.push(v1::ChangeKind::Overflow, Path::new(""), false);
    }
}

/// One event of the kernel's, taken out of its buffer.
struct Raw {
    number: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<OsString>,
}

impl Watcher {
    /// Puts the watch in place. What changes after this is seen.
    pub(super) fn new(path: &Path, recursive: bool) -> Result<Self, CallError> {
        let stat = rustix::fs::stat(path).map_err(CallError::file(path))?;
        let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
        let (folder, only) = match (is_folder, path.parent(), path.file_name()) {
            (true, ..) => (path, None),
            (false, Some(folder), Some(name)) => (folder, Some(name.to_owned())),
            (false, ..) => return Err(CallError::file(path)(Errno::NOTDIR)),
        };
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(|errno| match errno {
            Errno::MFILE => CallError::TooManyInKernel { what: "watches" },
            errno => CallError::file(path)(errno),
        })?;
        let mut folders = Folders::default();
        let root_number = folders.add(&inotify, folder, true).map_err(|error| refused(error, folder))?;
        let mut watcher = Self {
            inotify: Arc::new(inotify),
            folders,
            root: path.to_owned(),
            root_number,
            recursive: recursive && only.is_none(),
            only,
            half: None,
            found: HashSet::new(),
        };
        if watcher.recursive {
            let folder = watcher.root.clone();
            watcher.add_below(&folder, &mut None).map_err(|error| refused(error, path))?;
        }
        watcher.found.clear();
        Ok(watcher)
    }

    /// To wait for events on.
    pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
        self.inotify.clone()
    }

    /// The second half of a rename does not come: what was renamed has left.
    pub(super) fn give_up_half(&mut self) {
        if let Some(half) = &mut self.half {
            half.cookie = 0;
        }
    }

    /// Reads some events.
    pub(super) fn step(&mut self) -> Batch {
        let mut batch = Batch::default();
        if self.half.as_ref().is_some_and(|half| half.cookie == 0) {
            self.lose_half(&mut batch);
        }
        while batch.events.len() < STEP_EVENTS && !batch.ended {
            let (raw, drained) = self.read();
            for event in raw {
                self.take(event, &mut batch);
                if batch.ended {
                    return batch;
                }
            }
            if drained {
                // Whatever was found by looking has been reported by the kernel by now.
                self.found.clear();
                batch.half = self.half.is_some();
                return batch;
            }
        }
        batch.more = true;
        batch
    }

    /// One buffer of events, and whether there are no more.
    fn read(&self) -> (Vec<Raw>, bool) {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&*self.inotify, &mut buffer);
        let mut events = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => events.push(Raw {
                    number: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name: &CStr| OsStr::from_bytes(name.to_bytes()).to_owned()),
                }),
                Err(Errno::INTR) => {}
                Err(_) => return (events, true),
            }
            if reader.is_buffer_empty() {
                return (events, false);
            }
        }
    }

    fn take(&mut self, event: Raw, batch: &mut Batch) {
        use v1::ChangeKind;
        if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.lose_half(batch);
            batch.overflow();
            // Folders made meanwhile are not watched yet.
            if self.recursive {
                let root = self.root.clone();
                let _ = self.add_below(&root, &mut None);
            }
            return;
        }
        let is_second_half = event.flags.contains(ReadFlags::MOVED_TO)
            && self.half.as_ref().is_some_and(|half| half.cookie == event.cookie);
        if !is_second_half {
            self.lose_half(batch);
            if batch.ended {
                return;
            }
        }
        let Some(folder) = self.folders.path(event.number) else { return };
        let Some(name) = event.name else {
            self.folder_itself(event.number, event.flags, batch);
            return;
        };
        if self.only.as_ref().is_some_and(|only| *only != name) && !event.flags.intersects(MOVED) {
            return;
        }
        let path = match &self.only {
            Some(only) if *only == name => self.root.clone(),
            _ => folder.join(&name),
        };
        let directory = event.flags.contains(ReadFlags::ISDIR);
        if event.flags.contains(ReadFlags::MOVED_FROM) {
            let own = files::own_temporary(&name);
            self.half = Some(Half {
                cookie: event.cookie,
                replaces: own == Some(files::Temporary::Replaces),
                hidden: own.is_some() || self.only.as_ref().is_some_and(|only| *only != name),
                path,
                directory,
            });
            return;
        }
        if event.flags.contains(ReadFlags::MOVED_TO) {
            self.arrived(&name, path, directory, batch);
            return;
        }
        if files::own_temporary(&name).is_some() {
            return;
        }
        if event.flags.contains(ReadFlags::CREATE) {
            if !self.found.remove(&path) {
                batch.push(ChangeKind::Created, &path, directory);
            }
            if directory {
                self.look_through(&path, batch);
            }
        } else if event.flags.contains(ReadFlags::DELETE) {
            batch.push(ChangeKind::Removed, &path, directory);
            batch.ended = self.only.is_some();
        } else if files::is_unnamed(&name, &path) {
            // It is being written; once it is done it gets a name.
        } else if event.flags.contains(ReadFlags::MODIFY) {
            batch.push(ChangeKind::Modified, &path, directory);
        } else if event.flags.contains(ReadFlags::ATTRIB) {
            batch.push(ChangeKind::Attributes, &path, directory);
        }
    }

    /// The second half of a rename, or something from outside.
    fn arrived(&mut self, name: &OsStr, path: PathBuf, directory: bool, batch: &mut Batch) {
        use v1::ChangeKind;
        let half = self.half.take();
        if self.only.as_ref().is_some_and(|only| *only != *name) {
            // The watched file has another name now.
            if half.is_some_and(|half| !half.hidden) {
                batch.push(ChangeKind::Removed, &self.root, false);
                batch.ended = true;
            }
            return;
        }
        if files::own_temporary(name).is_some() {
            return;
        }
        match half {
            // A file is replaced: the same name, another content.
            Some(half) if half.replaces || (half.hidden && self.only.is_some()) => {
                batch.push(ChangeKind::Modified, &path, false);
            }
            Some(half) if !half.hidden => {
                if half.directory {
                    self.folders.rename(&half.path, &path);
                }
                batch.push(ChangeKind::Renamed, &path, directory);
                if let Some(last) = batch.events.last_mut() {
                    last.old_path = half.path.to_string_lossy().into_owned();
                }
            }
            _ if self.only.is_some() => batch.push(ChangeKind::Modified, &path, false),
            _ => {
                if !self.found.remove(&path) {
                    batch.push(ChangeKind::Created, &path, directory);
                }
                if directory {
                    self.look_through(&path, batch);
                }
            }
        }
    }

    /// What was renamed has left what is watched.
    fn lose_half(&mut self, batch: &mut Batch) {
        let Some(half) = self.half.take().filter(|half| !half.hidden) else { return };
        if half.directory {
            let inotify = self.inotify.clone();
            self.folders.remove_below(&inotify, &half.path);
        }
        batch.push(v1::ChangeKind::Removed, &half.path, half.directory);
        batch.ended = self.only.is_some();
    }

    /// Something happened to a watched folder itself. Its parent has told of all but the root.
    fn folder_itself(&mut self, number: i32, flags: ReadFlags, batch: &mut Batch) {
        let is_gone =
            flags.intersects(ReadFlags::DELETE_SELF.union(ReadFlags::UNMOUNT).union(ReadFlags::IGNORED));
        if number != self.root_number {
            if is_gone {
                self.folders.forget(number);
            }
            return;
        }
        if is_gone || flags.contains(ReadFlags::MOVE_SELF) {
            batch.push(v1::ChangeKind::Removed, &self.root, self.only.is_none());
            batch.ended = true;
        } else if flags.contains(ReadFlags::ATTRIB) && self.only.is_none() {
            batch.push(v1::ChangeKind::Attributes, &self.root, true);
        }
    }

    /// Watches a folder that has come, and reports what was in it already.
    fn look_through(&mut self, path: &Path, batch: &mut Batch) {
        if !self.recursive {
            return;
        }
        let inotify = self.inotify.clone();
        let added = match self.folders.add(&inotify, path, false) {
            Ok(_) => {
                let mut found = Some(Vec::new());
                let added = self.add_below(path, &mut found);
                let mut found = found.unwrap_or_default();
                let is_cut = found.len() > MAX_FOUND;
                found.truncate(MAX_FOUND);
                for (path, directory) in found {
                    batch.push(v1::ChangeKind::Created, &path, directory);
                    self.found.insert(path);
                }
                if is_cut { Err(NotWatched::Full) } else { added }
            }
            Err(error) => Err(error),
        };
        // A folder that is gone again is nothing to tell of.
        if added == Err(NotWatched::Full) {
            batch.overflow();
        }
    }

    /// Watches every folder below one that is watched already. What is in them goes to
    /// `found`, if that is wanted, up to a bound.
    fn add_below(
        &mut self,
        folder: &Path,
        found: &mut Option<Vec<(PathBuf, bool)>>,
    ) -> Result<(), NotWatched> {
        let inotify = self.inotify.clone();
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if !directory && found.is_none() {
                    continue;
                }
                let path = entry.path();
                // One more than is told, to know that there are more.
                if let Some(found) = found.as_mut().filter(|found| found.len() <= MAX_FOUND)
                    && files::own_temporary(&entry.file_name()).is_none()
                {
                    found.push((path.clone(), directory));
                }
                if directory {
                    match self.folders.add(&inotify, &path, false) {
                        Ok(_) => open.push(path),
                        Err(NotWatched::Full) => return Err(NotWatched::Full),
                        // Gone again, or not for us.
                        Err(NotWatched::Failed(_)) => {}
                    }
                }
            }
        }
        Ok(())
    }
}

const MOVED: ReadFlags = ReadFlags::MOVED_FROM.union(ReadFlags::MOVED_TO);

fn refused(error: NotWatched, path: &Path) -> CallError {
    match error {
        NotWatched::Full => CallError::TooMany { what: "folders in this watch", limit: MAX_FOLDERS },
        NotWatched::Failed(errno) => CallError::file(path)(errno),
    }
}
