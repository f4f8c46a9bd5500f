//! A program with everything it starts, what it says line by line, and its end.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

/// Lines that are remembered for a failure.
const REMEMBERED: usize = 20;
/// Bytes of a line; what is longer goes on as the next.
const MAX_LINE: usize = 4096;
/// How long it may tidy up when it is asked to end.
const GRACE: Duration = Duration::from_secs(60);
/// How long those it left behind may keep its output open once it has ended.
const LINGER: Duration = Duration::from_secs(10);

pub(super) struct Running {
    child: Child,
    /// Its process group is its own.
    group: Option<Pid>,
    output: Option<BufReader<ChildStderr>>,
    last_lines: VecDeque<String>,
}

impl Running {
    /// Starts a program in a process group of its own, whose errors are its output.
    pub(super) fn start(mut command: Command) -> std::io::Result<Self> {
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::piped());
        command.process_group(0);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let output = child.stderr.take().map(BufReader::new);
        Ok(Self { child, group, output, last_lines: VecDeque::new() })
    }

    /// The next line; nothing when there will be none. Whoever stops waiting loses part of a line.
    pub(super) async fn line(&mut self) -> Option<String> {
        let output = self.output.as_mut()?;
        let mut line = Vec::new();
        loop {
            match output.read_u8().await {
                Ok(b'\n' | b'\r') if line.is_empty() => {}
                Ok(b'\n' | b'\r') => break,
                Ok(byte) => line.push(byte),
                Err(_) if line.is_empty() => {
                    self.output = None;
                    return None;
                }
                Err(_) => break,
            }
            if line.len() == MAX_LINE {
                break;
            }
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        if self.last_lines.len() == REMEMBERED {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(line.clone());
        Some(line)
    }

    /// What it said last.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.last_lines.iter().cloned().collect()
    }

    /// Waits for its end, once it says nothing any more.
    pub(super) async fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to end, makes it end, and waits until nothing of it writes anywhere.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let ended = tokio::time::timeout(GRACE, async {
            while self.line().await.is_some() {}
            self.child.wait().await
        });
        if ended.await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
        // Its output ends with the last one that holds it.
        let _ = tokio::time::timeout(LINGER, async { while self.line().await.is_some() {} }).await;
    }

    fn signal(&self, signal: Signal) {
        // As long as it was not waited for, the number is its own.
        if let Some(group) = self.group.filter(|_| self.child.id().is_some()) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
