//! The program `runsc`: arguments and nothing else, an end to every call, answers that are parsed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use emergent_types::RuntimeFacts;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long a call may take that starts nothing.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// How much of what it prints is read.
const MAX_PRINTED: u64 = 4 << 20;

/// Where administrators' programs are, whatever `PATH` says.
const FOLDERS: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"];

/// How sandboxes' requests to a kernel are caught: this one runs anywhere.
const PLATFORM: &str = "systrap";

/// What every sandbox and every call has. The disk is the host's, so what is written must get there and not
/// into an overlay of gVisor's own. Nor may gVisor keep to itself what it knows of files, as it does with a root
/// that is its alone: two names of one file would not agree on its size and mode, and a copy of the disk would
/// have other times than its files had.
const FLAGS: [&str; 4] =
    ["--platform=systrap", "--systemd-cgroup=false", "--overlay2=none", "--file-access=shared"];

/// What is known of a release that is started like this.
pub(super) fn facts(version: Option<String>) -> RuntimeFacts {
    RuntimeFacts {
        name: "runsc".to_owned(),
        version,
        platform: Some(PLATFORM.to_owned()),
        // The sockets of a namespace of its own.
        network: Some("host".to_owned()),
    }
}

/// The program, where it is installed.
pub fn find_runsc() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join("runsc")).find(|program| program.is_file())
}

/// A call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunscError {
    #[error("{} cannot be started: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("`runsc {command}` took longer than {limit:?}")]
    TimedOut { command: &'static str, limit: Duration },
    #[error("`runsc {command}` failed ({status}): {said}")]
    Failed { command: &'static str, status: ExitStatus, said: String },
    #[error("what `runsc {command}` answers makes no sense: {source}")]
    Answer { command: &'static str, source: serde_json::Error },
}

/// What a sandbox does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Running,
    Paused,
    Stopped,
    /// On its way to be one of the others.
    #[serde(other)]
    Unfinished,
}

/// A sandbox that runsc knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) status: Status,
    /// Its process on the host; not there once it has ended.
    #[serde(default)]
    pub(super) pid: i32,
}

/// `runsc`, with a folder of its own for what it knows.
#[derive(Debug, Clone)]
pub(super) struct Runsc {
    program: PathBuf,
    root: PathBuf,
}

impl Runsc {
    pub(super) fn new(program: PathBuf, root: PathBuf) -> Self {
        Self { program, root }
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// How every process of ours is known that runsc has started.
    pub(super) fn root_flag(&self) -> String {
        format!("--root={}", self.root.display())
    }

    /// A call to be added to. Ends with whoever waits for it, and has nothing of this process's
    /// environment, in which there are secrets.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(self.root_flag()).args(FLAGS);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }

    pub(super) fn failed_start(&self, source: io::Error) -> RunscError {
        RunscError::Start { program: self.program.clone(), source }
    }

    /// Makes a call and returns what it printed.
    async fn call(&self, name: &'static str, arguments: &[&str]) -> Result<Vec<u8>, RunscError> {
        let mut command = self.command();
        command.arg(name).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = async {
            let mut child = command.spawn()?;
            let (mut output, mut complaints) = (Vec::new(), Vec::new());
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let reading = async {
                match stdout {
                    Some(stdout) => stdout.take(MAX_PRINTED).read_to_end(&mut output).await,
                    None => Ok(0),
                }
            };
            let listening = async {
                match stderr {
                    Some(stderr) => stderr.take(MAX_PRINTED).read_to_end(&mut complaints).await,
                    None => Ok(0),
                }
            };
            let (read, heard) = tokio::join!(reading, listening);
            read?;
            heard?;
            Ok::<_, io::Error>((child.wait().await?, output, complaints))
        };
        match tokio::time::timeout(CALL_LIMIT, done).await {
            Err(_) => Err(RunscError::TimedOut { command: name, limit: CALL_LIMIT }),
            Ok(Err(source)) => Err(self.failed_start(source)),
            Ok(Ok((status, output, _))) if status.success() => Ok(output),
            Ok(Ok((status, _, complaints))) => {
                Err(RunscError::Failed { command: name, status, said: last_line(&complaints) })
            }
        }
    }

    /// Every sandbox that it knows of.
    pub(super) async fn list(&self) -> Result<Vec<Known>, RunscError> {
        const TRIES: usize = 5;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.call("list", &["--format=json"]).await {
                // One that vanishes while it looks is an error to it.
                Err(RunscError::Failed { .. }) if tries < TRIES => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                printed => return parse_list(&printed?),
            }
        }
    }

    /// Stops every process of a sandbox where it is.
    pub(super) async fn pause(&self, id: &str) -> Result<(), RunscError> {
        self.call("pause", &[id]).await.map(drop)
    }

    /// Lets them go on.
    pub(super) async fn resume(&self, id: &str) -> Result<(), RunscError> {
        self.call("resume", &[id]).await.map(drop)
    }

    /// What it says of itself.
    pub(super) async fn version(&self) -> Result<String, RunscError> {
        let printed = self.call("--version", &[]).await?;
        let text = String::from_utf8_lossy(&printed).into_owned();
        let first = text.lines().next().unwrap_or_default();
        Ok(first.strip_prefix("runsc version ").unwrap_or(first).to_owned())
    }
}

/// With nothing to list it says `null`.
fn parse_list(printed: &[u8]) -> Result<Vec<Known>, RunscError> {
    serde_json::from_slice::<Option<Vec<Known>>>(printed)
        .map(Option::unwrap_or_default)
        .map_err(|source| RunscError::Answer { command: "list", source })
}

/// The last thing that was said, within reason: a line, or a message of its log, where they stand one behind
/// the other.
pub(super) fn last_line(text: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Entry {
        msg: String,
    }
    let entries = serde_json::Deserializer::from_slice(text).into_iter::<Entry>();
    let message = entries.filter_map(Result::ok).last().map(|entry| entry.msg);
    let text = String::from_utf8_lossy(text);
    let line = || text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing was said");
    message.unwrap_or_else(|| line().to_owned()).chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_lists() {
        assert_eq!(parse_list(b"null").unwrap(), []);
        let printed = br#"[{"ociVersion":"1","id":"a","pid":7,"status":"running","bundle":"/b"},
            {"id":"b","pid":0,"status":"creating"},{"id":"c","status":"paused"}]"#;
        let known = |id: &str, pid, status| Known { id: id.to_owned(), status, pid };
        let expected = [
            known("a", 7, Status::Running),
            known("b", 0, Status::Unfinished),
            known("c", 0, Status::Paused),
        ];
        assert_eq!(parse_list(printed).unwrap(), expected);
        assert!(parse_list(b"[{}]").is_err());
    }

    #[test]
    fn the_last_thing_that_was_said() {
        let check = |text: &str, expect: &str| assert_eq!(last_line(text.as_bytes()), expect);
        check("", "nothing was said");
        check("one\ntwo\n\n", "two");
        check(r#"{"msg":"one","level":"error"}{"msg":"two","level":"error"}"#, "two");
        check(&"x".repeat(1000), &"x".repeat(400));
    }
}
