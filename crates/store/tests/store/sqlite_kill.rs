//! `kill -9` at any moment: acknowledged rows stay, and the next start works. A disk that
//! refuses a write: the store goes on when it no longer does.
//!
//! The victim is this test program, started again for one test with [`VICTIM`] set: the
//! test then plays the victim's part instead of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use emergent_store::sqlite::SqliteStore;
use emergent_store::{InsertWorkspaceError, OpenError, Store, StoreError, WorkspaceUpdate};
use emergent_types::{WorkspaceId, WorkspaceStatus};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::sqlite_suite::{database_in, vault};
use crate::suite::fixtures::{NO_LIMIT, workspace};

/// Names the folder of the database that a victim works on.
const VICTIM: &str = "EMERGENT_STORE_TEST_VICTIM";

/// What the victim's lines begin with, to tell them from the test harness's own.
const MARK: &str = "victim:";

fn victims_database() -> Option<PathBuf> {
    std::env::var_os(VICTIM).map(|folder: OsString| database_in(Path::new(&folder)))
}

/// This program, started again. Killed when it is dropped, if not before.
struct Victim {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    /// Starts `test` of this program as a victim. A write past its file size limit is an error
    /// to it, not a signal.
    fn start(test: &str, folder: &Path) -> Self {
        let mut process = Command::new("env")
            .arg("--ignore-signal=XFSZ")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", test])
            .env(VICTIM, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next thing it says, as the words after its mark; `None` when it is dead.
    fn next_words(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.unwrap();
            if let Some((_, words)) = line.split_once(MARK) {
                return Some(words.trim().to_owned());
            }
        }
    }

    /// SIGKILL.
    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Opens a new database in an endless loop: each round, a new folder.
async fn open_and_open(folder: &Path) -> ! {
    let mut round = 0;
    loop {
        let own = folder.join(round.to_string());
        std::fs::create_dir(&own).unwrap();
        println!("{MARK} {round}");
        SqliteStore::open(&database_in(&own), vault()).await.unwrap();
        round += 1;
    }
}

/// Kills are spread evenly over somewhat more than the time that opening and migrating a new
/// database takes, so that they hit every step of it.
///
/// Proves: MIGR-1.4
#[tokio::test]
async fn a_kill_while_opening_is_repaired_by_the_next_start() {
    const KILLS: u32 = 40;
    if let Some(path) = victims_database() {
        open_and_open(path.parent().unwrap()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    SqliteStore::open(&database_in(folder.path()), vault()).await.unwrap();
    let whole = started.elapsed();

    let mut half_done = 0;
    for kill_number in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        let mut victim =
            Victim::start("sqlite_kill::a_kill_while_opening_is_repaired_by_the_next_start", folder.path());
        let mut last = victim.next_words().expect("the victim starts");
        std::thread::sleep(whole * 3 / 2 * kill_number / KILLS);
        victim.kill();
        while let Some(round) = victim.next_words() {
            last = round;
        }

        let path = database_in(&folder.path().join(last));
        let size_before = std::fs::metadata(&path).map_or(0, |file| file.len());
        let log_before = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |file| file.len());
        half_done += u32::from(size_before > 0 || log_before > 0);

        let row = workspace();
        let installation = {
            let store = SqliteStore::open(&path, vault()).await.unwrap();
            store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
            store.installation().clone()
        };
        let store = SqliteStore::open(&path, vault()).await.unwrap();
        assert_eq!(store.installation(), &installation);
        assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
    }
    // The kills must have met databases in the making, or this has shown nothing.
    assert!(half_done >= KILLS / 4, "only {half_done} of {KILLS} kills found a file");
}

/// Inserts for ever, and says what has been acknowledged.
async fn insert_and_insert(path: &Path) -> ! {
    let store = SqliteStore::open(path, vault()).await.unwrap();
    loop {
        let row = workspace();
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
        let stopped = WorkspaceUpdate::to_status(WorkspaceStatus::Stopped);
        store.update_workspace(row.id, stopped).await.unwrap();
        println!("{MARK} {}", row.id);
    }
}

#[tokio::test]
async fn acknowledged_rows_survive_a_kill() {
    if let Some(path) = victims_database() {
        insert_and_insert(&path).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let mut acknowledged: Vec<WorkspaceId> = Vec::new();
    for kill_number in 0..10 {
        let mut victim = Victim::start("sqlite_kill::acknowledged_rows_survive_a_kill", folder.path());
        for _ in 0..10 {
            acknowledged.push(victim.next_words().expect("the victim inserts").parse().unwrap());
        }
        std::thread::sleep(Duration::from_micros(700 * kill_number));
        victim.kill();
        // What it had said before it died, and was not read yet. Its last word may be cut.
        acknowledged.extend(std::iter::from_fn(|| victim.next_words()?.parse::<WorkspaceId>().ok()));

        let store = SqliteStore::open(&path, vault()).await.unwrap();
        let rows = store.workspaces_for_reconcile().await.unwrap();
        let stopped: Vec<_> =
            rows.iter().filter(|row| row.status == WorkspaceStatus::Stopped).map(|row| row.id).collect();
        for id in &acknowledged {
            assert!(stopped.contains(id), "{id} was acknowledged and is lost");
        }
        let unacknowledged = rows.len() - acknowledged.len();
        assert!(unacknowledged <= kill_number as usize + 1, "{unacknowledged} rows came from nowhere");
    }
    assert!(acknowledged.len() >= 100);
}

/// The lock of a killed server does not outlive it; that of a living one names its process.
#[tokio::test]
async fn a_lock_ends_with_its_process() {
    if let Some(path) = victims_database() {
        insert_and_insert(&path).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let mut victim = Victim::start("sqlite_kill::a_lock_ends_with_its_process", folder.path());
    victim.next_words().expect("the victim starts");
    let error = SqliteStore::open(&path, vault()).await.unwrap_err();
    assert!(
        matches!(&error, OpenError::AlreadyInUse { holder: Some(holder), .. } if *holder == format!("process {}", victim.process.id())),
        "{error:?}"
    );
    assert!(
        error.to_string().ends_with(&format!("is already in use by process {}", victim.process.id())),
        "{error}"
    );
    victim.kill();
    SqliteStore::open(&path, vault()).await.unwrap();
}

/// Lets files grow up to `bytes`, in this process.
fn limit_file_size(bytes: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Writes while the disk refuses, then while it does not.
async fn write_against_the_wall(path: &Path) {
    let store = SqliteStore::open(path, vault()).await.unwrap();
    let first = workspace();
    store.insert_workspace(&first, NO_LIMIT, None).await.unwrap();
    let log = path.with_extension("db-wal");
    limit_file_size(Some(std::fs::metadata(log).unwrap().len()));
    for _ in 0..5 {
        // Too large for any cache, so that refusals come during the statement as well.
        let mut large = workspace();
        large.warnings = vec!["x".repeat(4 << 20)];
        for row in [&workspace(), &large] {
            let error = store.insert_workspace(row, NO_LIMIT, None).await.unwrap_err();
            let InsertWorkspaceError::Store(StoreError::Database { cause, .. }) = &error else {
                panic!("{error:?}")
            };
            assert!(cause.to_string().contains("disk I/O error"), "{cause}");
            assert_eq!(store.get_workspace(row.id).await.unwrap(), None);
        }
    }
    limit_file_size(None);
    let last = workspace();
    store.insert_workspace(&last, NO_LIMIT, None).await.unwrap();
    assert_eq!(store.workspaces_for_reconcile().await.unwrap(), [first, last]);
}

#[tokio::test]
async fn a_refused_write_leaves_the_store_usable() {
    if let Some(path) = victims_database() {
        write_against_the_wall(&path).await;
        println!("{MARK} survived");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Victim::start("sqlite_kill::a_refused_write_leaves_the_store_usable", folder.path());
    assert_eq!(victim.next_words().as_deref(), Some("survived"));
}
