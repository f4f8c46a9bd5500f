//! The whole output of a command that prints more than its answer holds, in a file.
//!
//! ```text
//!  both streams, in the order they came ──► Pending (memory, as much as the captures) ──┐
//!                                                 a capture overflows: file, all of it   │
//!                              Writing ◄───────────────────────────────────────────────┘
//!                                 └── batches on a blocking thread, up to a cap
//! ```
//!
//! A command that prints little costs no file. The folder is on the sandbox's disk and not on a
//! memory file system, where output would count against the sandbox's memory. Nothing that goes
//! wrong here fails a command: the answer has no file then, or one that ends early.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, lstat, openat, unlinkat};
use rustix::io::Errno;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::threads;

use super::being_written::{BeingWritten, turn_to_finish};
use super::output_budget::Room;
use super::output_folder::{OwnFolder, Owner, give, make_place};

/// What is written at once. Twice this is in memory while a command floods.
const BATCH: usize = 256 << 10;

/// Everything one command prints.
pub(super) struct Journal {
    folder: PathBuf,
    owner: Owner,
    state: Mutex<State>,
}

enum State {
    Pending(Vec<u8>),
    Writing(Writer),
    Off,
}

impl Journal {
    pub(super) fn new(folder: PathBuf, owner: Owner) -> Self {
        Self { folder, owner, state: Mutex::new(State::Pending(Vec::new())) }
    }

    /// Takes what a stream printed; `overflows` when that stream's capture does not hold it.
    pub(super) async fn append(&self, data: &[u8], overflows: bool) {
        let mut state = self.state.lock().await;
        match &mut *state {
            State::Pending(bytes) => {
                bytes.extend_from_slice(data);
                if overflows {
                    let bytes = std::mem::take(bytes);
                    *state = self.begin(bytes).await;
                }
            }
            State::Writing(writer) => writer.push(data).await,
            State::Off => {}
        }
    }

    async fn begin(&self, bytes: Vec<u8>) -> State {
        let (folder, owner) = (self.folder.clone(), self.owner);
        match threads::file_work(move || Writer::create(&folder, owner)).await {
            Some(Ok(mut writer)) => {
                writer.push(&bytes).await;
                State::Writing(writer)
            }
            _ => State::Off,
        }
    }

    /// The file and whether it ends too early, if there is one.
    pub(super) async fn finish(&self) -> Option<(String, bool)> {
        let state = std::mem::replace(&mut *self.state.lock().await, State::Off);
        match state {
            State::Writing(writer) => writer.finish().await,
            State::Pending(_) | State::Off => None,
        }
    }
}

/// A file that is being written. Removed when dropped before it is finished.
struct Writer {
    folder: OwnedFd,
    being_written: BeingWritten,
    path: PathBuf,
    file: Arc<OwnedFd>,
    buffer: Vec<u8>,
    under_way: Option<JoinHandle<Option<Result<(), Errno>>>>,
    /// What may still be written.
    room: Room,
    truncated: bool,
    finished: bool,
}

impl Writer {
    fn create(folder: &Path, owner: Owner) -> Result<Self, Errno> {
        let OwnFolder { folder: own, path, room } = OwnFolder::open(folder, owner)?;
        let being_written = BeingWritten::new(format!("{:x}-{:016x}.log", unix_ms(), random()));
        let name = being_written.name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&own, name, flags, Mode::from_raw_mode(0o600))?;
        let writer = Self {
            path: path.join(name),
            being_written,
            file: Arc::new(file),
            buffer: Vec::new(),
            under_way: None,
            room,
            truncated: false,
            finished: false,
            folder: own,
        };
        give(&writer.file, owner)?;
        Ok(writer)
    }

    async fn push(&mut self, data: &[u8]) {
        if self.truncated {
            return;
        }
        let fits = self.room.take(data.len());
        self.truncated = fits < data.len();
        self.buffer.extend_from_slice(data.get(..fits).unwrap_or(data));
        if self.buffer.len() >= BATCH {
            self.flush().await;
        }
    }

    /// Hands the buffer over as soon as the one before it is written.
    async fn flush(&mut self) {
        self.settle().await;
        let batch = std::mem::replace(&mut self.buffer, Vec::with_capacity(BATCH));
        let file = self.file.clone();
        self.under_way = Some(tokio::spawn(threads::file_work(move || write_all(&file, &batch))));
    }

    async fn settle(&mut self) {
        if let Some(under_way) = self.under_way.take() {
            // A full disk: what is there stays.
            self.truncated |= !matches!(under_way.await, Ok(Some(Ok(()))));
        }
    }

    async fn finish(mut self) -> Option<(String, bool)> {
        self.flush().await;
        self.settle().await;
        let close = move || {
            let _turn = turn_to_finish();
            self.close()
        };
        threads::file_work(close).await.flatten()
    }

    /// Becomes one of the finished files, for which others make place.
    fn close(mut self) -> Option<(String, bool)> {
        let path = self.path.to_str()?.to_owned();
        let stat = fstat(&self.file).ok()?;
        if stat.st_size == 0 {
            return None;
        }
        self.finished = true;
        // Somebody in the sandbox may have removed it, or put something else there.
        if !lstat(&self.path).is_ok_and(|there| there.st_ino == stat.st_ino) {
            return None;
        }
        make_place(&self.folder, &self.room);
        Some((path, self.truncated))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            let _ = unlinkat(&self.folder, self.being_written.name(), AtFlags::empty());
        }
    }
}

fn write_all(file: &OwnedFd, mut rest: &[u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Not guessable: the seed is the system's.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn me() -> Owner {
        (rustix::process::geteuid(), rustix::process::getegid())
    }

    fn names(folder: &Path) -> Vec<PathBuf> {
        let account = folder.join(me().0.as_raw().to_string());
        fs::read_dir(account)
            .map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
    }

    #[tokio::test]
    async fn little_output_is_no_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("output");
        let journal = Journal::new(folder.clone(), me());
        journal.append(b"little", false).await;
        assert_eq!(journal.finish().await, None);
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn everything_in_its_order() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("output");
        let journal = Journal::new(folder.clone(), me());
        let mut expected = Vec::new();
        for number in 0..200u8 {
            let piece = vec![number; 10_000];
            journal.append(&piece, number > 10).await;
            expected.extend(piece);
        }
        let (path, truncated) = journal.finish().await.unwrap();
        assert!(!truncated);
        assert!(fs::read(&path).unwrap() == expected);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(Path::new(&path).parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    }

    #[tokio::test]
    async fn what_is_not_finished_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::new(root.path().join("output"), me());
        journal.append(b"x", true).await;
        assert_eq!(names(&root.path().join("output")).len(), 1);
        drop(journal);
        assert_eq!(names(&root.path().join("output")).len(), 0);
    }

    /// However many others begin and end meanwhile.
    #[tokio::test]
    async fn a_file_that_is_being_written_is_not_cleaned_up() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("output");
        let slow = Journal::new(folder.clone(), me());
        slow.append(b"begun ", true).await;
        for _ in 0..30 {
            let other = Journal::new(folder.clone(), me());
            other.append(b"x", true).await;
            other.finish().await.unwrap();
        }
        slow.append(b"and ended", true).await;
        let (path, truncated) = slow.finish().await.unwrap();
        assert!(!truncated);
        assert_eq!(fs::read(path).unwrap(), b"begun and ended");
        assert_eq!(names(&folder).len(), 20, "the others have gone, the oldest first");
    }

    #[tokio::test]
    async fn a_file_that_is_gone_is_not_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("output");
        let journal = Journal::new(folder.clone(), me());
        journal.append(b"x", true).await;
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(journal.finish().await, None);
        // What stands in its place is somebody else's.
        let journal = Journal::new(folder.clone(), me());
        journal.append(b"x", true).await;
        let [path] = names(&folder).try_into().unwrap();
        fs::write(folder.join("kept"), "precious").unwrap();
        fs::rename(folder.join("kept"), &path).unwrap();
        assert_eq!(journal.finish().await, None);
        assert_eq!(fs::read(path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn the_cap_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&root.path().join("output"), me()).unwrap();
        writer.room.left = 10;
        writer.push(b"01234567").await;
        writer.push(b"89abc").await;
        writer.push(b"def").await;
        let (path, truncated) = writer.finish().await.unwrap();
        assert!(truncated);
        assert_eq!(fs::read(path).unwrap(), b"0123456789");
    }
}
