//! Running a program of the host's: arguments only, bounded in time and output.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::NetworkError;

/// How long one may take. Each takes some milliseconds.
const LIMIT: Duration = Duration::from_secs(15);

/// How much of what it says is passed on.
const MAX_REASON: usize = 600;

/// Where the host's own programs are, beside what the server's path says.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Finds a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .chain(FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Runs a program to its end; `Ok` with what it wrote when it succeeded.
pub(crate) async fn run(program: &str, args: &[&str], input: &str) -> Result<String, NetworkError> {
    let failed = |error| NetworkError::Program { program: program.to_owned(), error };
    let path = find(program).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let mut child = Command::new(path)
        .args(args)
        .env_clear()
        .env("LC_ALL", "C")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let stdin = child.stdin.take();
    let work = async {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // One that has failed by now does not listen any more; it says why.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        output
    };
    let output =
        timeout(LIMIT, work).await.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(MAX_REASON).collect();
    Err(NetworkError::Refused { program: program.to_owned(), reason })
}

/// Runs asynchronous work on the calling thread, which must be one that may block.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, NetworkError>>) -> Result<T, NetworkError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NetworkError::system("runtime"))?
        .block_on(work)
}
