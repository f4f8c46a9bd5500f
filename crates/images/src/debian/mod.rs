//! The workspace image made from Debian packages alone, for hosts without a registry.
//!
//! ```text
//!  options ─► recipe: checked arguments ─► mmdebstrap, in namespaces of its own
//!                                              │ lines            │ tar
//!                                              ▼                  ▼
//!                                          progress     <target>.partial ─► <target>
//! ```
//!
//! The program works below a folder that is made for it and removed after it, whatever happens. Its
//! mounts are in a namespace of their own, so they go with it. It is ended when the caller cancels,
//! when the time is up, and when the future is dropped; then by a task that goes on for that.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

mod child;
mod error;
mod options;
mod recipe;

pub use error::BuildError;
pub use options::Options;
pub use recipe::is_package_name;

use crate::workspace;
use child::Running;

/// The program that does the work, and the package that has it.
const PROGRAM: &str = "mmdebstrap";

/// An image that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Bytes of the archive.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Makes an image and writes it to a file, as a tar archive with numbers of owners, ready to be
/// imported. The file is there when it is complete; an older one is replaced then.
///
/// `progress` gets every line the programs say. `cancel` calls it off when it ends; the answer
/// comes when everything is removed. Needs root, or ranges of accounts for the caller
/// (`/etc/subuid`); the programs say so.
pub async fn build(
    options: Options,
    target: &Path,
    mut progress: impl FnMut(&str),
    cancel: impl Future<Output = ()>,
) -> Result<Built, BuildError> {
    let (lines, mut said) = mpsc::channel(64);
    // Dropped with this future.
    let (go_on, called_off) = oneshot::channel::<()>();
    let mut job = tokio::spawn(run(options, target.to_owned(), lines, called_off));
    let mut go_on = Some(go_on);
    let mut cancel = std::pin::pin!(cancel);
    loop {
        tokio::select! {
            biased;
            Some(line) = said.recv() => progress(&line),
            answer = &mut job => {
                return match answer {
                    Ok(answer) => answer,
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => Err(BuildError::Cancelled),
                };
            }
            () = &mut cancel, if go_on.is_some() => go_on = None,
        }
    }
}

async fn run(
    options: Options,
    target: PathBuf,
    lines: mpsc::Sender<String>,
    mut called_off: oneshot::Receiver<()>,
) -> Result<Built, BuildError> {
    let started = Instant::now();
    let work = tempfile::Builder::new()
        .prefix("emergent-image-")
        // Programs without rights read what is below.
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(&options.work_folder)
        .trying("making a folder", &options.work_folder)?;
    let partial = Partial::beside(&target);
    let arguments = recipe::arguments(&options, work.path(), &partial.path)?;

    let mut command = Command::new(&options.program);
    command
        .args(arguments)
        .env("TMPDIR", work.path())
        .env("LC_ALL", "C.UTF-8")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env(recipe::SETUP_VARIABLE, workspace::SETUP);
    let mut running = Running::start(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BuildError::NotInstalled { program: PROGRAM },
        _ => BuildError::Io { action: "starting", path: options.program.clone(), source: error },
    })?;

    let deadline = tokio::time::sleep(options.time);
    let ended = {
        let mut deadline = std::pin::pin!(deadline);
        tokio::select! {
            biased;
            _ = &mut called_off => Err(BuildError::Cancelled),
            () = &mut deadline => {
                let last_line = running.last_lines().pop().unwrap_or_default();
                Err(BuildError::TimedOut { after: options.time, last_line })
            }
            status = follow(&mut running, &lines) => status.trying("waiting for", Path::new(PROGRAM)),
        }
    };
    let answer = match ended {
        Ok(status) if status.success() => partial.finish(&target).await,
        Ok(status) => Err(BuildError::Failed { program: PROGRAM, status, last_lines: running.last_lines() }),
        Err(error) => Err(error),
    };
    running.stop().await;
    remove(work).await;
    answer.map(|bytes| Built { bytes, took: started.elapsed() })
}

/// Passes on what is said, up to the end.
async fn follow(running: &mut Running, lines: &mpsc::Sender<String>) -> io::Result<std::process::ExitStatus> {
    while let Some(line) = running.line().await {
        // Nobody listens when this is being called off.
        let _ = lines.send(line).await;
    }
    running.end().await
}

/// A whole system lies there, so this takes a while.
async fn remove(work: tempfile::TempDir) {
    let path = work.path().to_owned();
    let removed = tokio::task::spawn_blocking(move || work.close()).await;
    if !matches!(removed, Ok(Ok(()))) {
        tracing::warn!(folder = %path.display(), "{}: was not removed", path.display());
    }
}

/// The archive until it is complete.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn beside(target: &Path) -> Self {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        Self { path: target.with_file_name(name) }
    }

    async fn finish(&self, target: &Path) -> Result<u64, BuildError> {
        let (path, target) = (self.path.clone(), target.to_owned());
        let finished = tokio::task::spawn_blocking(move || {
            let file = std::fs::File::open(&path).trying("opening", &path)?;
            file.sync_all().trying("writing to disk", &path)?;
            std::fs::rename(&path, &target).trying("renaming", &path)?;
            Ok(file.metadata().trying("looking at", &target)?.len())
        });
        finished.await.unwrap_or(Err(BuildError::Cancelled))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone where it was finished.
        let _ = std::fs::remove_file(&self.path);
    }
}

trait Trying<T> {
    fn trying(self, action: &'static str, path: &Path) -> Result<T, BuildError>;
}

impl<T> Trying<T> for io::Result<T> {
    fn trying(self, action: &'static str, path: &Path) -> Result<T, BuildError> {
        self.map_err(|source| BuildError::Io { action, path: path.to_owned(), source })
    }
}
