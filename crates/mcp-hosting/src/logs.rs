//! What a server says beside its answers: the last lines, for whoever asks and whoever follows.
//!
//! Writing never waits. Who follows has a place in the ring and nothing else; what was overwritten meanwhile
//! is counted and gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use time::OffsetDateTime;
use tokio::sync::watch;

/// Lines that are kept, and bytes in them.
const MAX_LINES: usize = 2000;
const MAX_BYTES: usize = 512 * 1024;
/// What is longer is cut.
const MAX_LINE_BYTES: usize = 8 * 1024;
/// Lines that go with a crash.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4 * 1024;

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    /// The program's stderr.
    Stderr,
    /// The program's stdout, where that is no protocol.
    Stdout,
    /// A log message of the protocol that belongs to no client.
    Protocol,
    /// Whoever looks after the program.
    Supervisor,
}

impl LogStream {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Stdout => "stdout",
            Self::Protocol => "protocol",
            Self::Supervisor => "supervisor",
        }
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Grows from line to line, from 1 on.
    pub number: u64,
    /// When it was heard.
    pub at: OffsetDateTime,
    /// Where it comes from.
    pub stream: LogStream,
    /// The text, without its line end.
    pub text: String,
}

/// Some lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// Oldest first.
    pub lines: Vec<LogLine>,
    /// Lines that came after the one that was asked for and are not kept any more.
    pub missed: u64,
}

/// The lines of one server.
#[derive(Debug)]
pub(crate) struct Logs {
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    bytes: usize,
    newest: u64,
    /// What was heard of a line whose end was not: stderr's and stdout's.
    partial: [Vec<u8>; 2],
}

impl Logs {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { ring: Mutex::default(), newest: watch::Sender::new(0) })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line of our own.
    pub(crate) fn say(&self, stream: LogStream, text: &str) {
        let newest = {
            let mut ring = self.ring();
            ring.push(stream, text.as_bytes());
            ring.newest
        };
        self.newest.send_replace(newest);
    }

    /// What a program wrote, wherever its lines end.
    pub(crate) fn write(&self, stream: LogStream, data: &[u8]) {
        let newest = {
            let mut ring = self.ring();
            ring.write(stream, data);
            ring.newest
        };
        self.newest.send_replace(newest);
    }

    /// A program is over: what it did not end is a line too.
    pub(crate) fn flush(&self) {
        let newest = {
            let mut ring = self.ring();
            for stream in [LogStream::Stderr, LogStream::Stdout] {
                let rest = std::mem::take(&mut ring.partial[slot(stream)]);
                if !rest.is_empty() {
                    ring.push(stream, &rest);
                }
            }
            ring.newest
        };
        self.newest.send_replace(newest);
    }

    /// The last lines after this one.
    pub(crate) fn page(&self, after: u64, limit: usize) -> LogPage {
        let ring = self.ring();
        let oldest = ring.newest - ring.lines.len() as u64;
        let newer = ring.lines.iter().filter(|line| line.number > after);
        let count = newer.clone().count();
        let lines: Vec<_> = newer.skip(count.saturating_sub(limit)).cloned().collect();
        let begin = lines.first().map_or(ring.newest, |line| line.number - 1);
        LogPage { lines, missed: begin.max(oldest).saturating_sub(after) }
    }

    /// The number of the newest line.
    pub(crate) fn newest(&self) -> u64 {
        self.ring().newest
    }

    pub(crate) fn follow(self: &Arc<Self>, after: u64) -> Follower {
        Follower { newest: self.newest.subscribe(), logs: self.clone(), after }
    }

    /// The last lines of stderr after this one, for the reason of a crash.
    pub(crate) fn tail(&self, after: u64) -> Vec<String> {
        let ring = self.ring();
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let said = |line: &&LogLine| line.number > after && line.stream == LogStream::Stderr;
        for line in ring.lines.iter().rev().filter(said).take(TAIL_LINES) {
            bytes += line.text.len();
            if bytes > TAIL_BYTES && !lines.is_empty() {
                break;
            }
            lines.push(line.text.clone());
        }
        lines.reverse();
        lines
    }
}

fn slot(stream: LogStream) -> usize {
    usize::from(stream == LogStream::Stdout)
}

impl Ring {
    fn write(&mut self, stream: LogStream, data: &[u8]) {
        let mut line = std::mem::take(&mut self.partial[slot(stream)]);
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE_BYTES.saturating_sub(line.len());
            let text = piece.strip_suffix(b"\n");
            let said = text.unwrap_or(piece);
            line.extend_from_slice(&said[..said.len().min(room)]);
            if text.is_some() {
                self.push(stream, &line);
                line.clear();
            }
        }
        self.partial[slot(stream)] = line;
    }

    fn push(&mut self, stream: LogStream, text: &[u8]) {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_LINE_BYTES)]).into_owned();
        self.newest += 1;
        self.bytes += text.len();
        self.lines.push_back(LogLine { number: self.newest, at: emergent_store::now(), stream, text });
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

/// Somebody who reads what comes.
#[derive(Debug)]
pub struct Follower {
    logs: Arc<Logs>,
    newest: watch::Receiver<u64>,
    after: u64,
}

impl Follower {
    /// The next lines; waits for them. `None` when the server is gone.
    pub async fn next(&mut self) -> Option<LogPage> {
        loop {
            self.newest.borrow_and_update();
            let page = self.logs.page(self.after, MAX_LINES);
            if let Some(last) = page.lines.last() {
                self.after = last.number;
                return Some(page);
            }
            self.newest.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &LogPage) -> Vec<&str> {
        page.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_end_where_the_program_ends_them() {
        let logs = Logs::new();
        logs.write(LogStream::Stderr, b"one\r\ntw");
        logs.write(LogStream::Stdout, b"beside\n");
        logs.write(LogStream::Stderr, b"o\n\nthr\xffee");
        assert_eq!(texts(&logs.page(0, 10)), ["one", "beside", "two", ""]);
        logs.flush();
        assert_eq!(texts(&logs.page(4, 10)), ["thr\u{fffd}ee"]);
        assert_eq!(logs.tail(0), ["one", "two", "", "thr\u{fffd}ee"]);
        assert_eq!(logs.tail(4), ["thr\u{fffd}ee"]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let logs = Logs::new();
        for _ in 0..3 * MAX_LINES {
            logs.say(LogStream::Stderr, "x");
        }
        logs.write(LogStream::Stderr, &vec![b'y'; 100 * MAX_LINE_BYTES]);
        logs.flush();
        let page = logs.page(0, usize::MAX);
        assert_eq!(page.lines.len(), MAX_LINES);
        assert_eq!(page.missed, 2 * MAX_LINES as u64 + 1);
        assert_eq!(page.lines.last().map(|line| line.text.len()), Some(MAX_LINE_BYTES));
        for _ in 0..1000 {
            logs.say(LogStream::Stderr, &"z".repeat(MAX_LINE_BYTES));
        }
        assert_eq!(logs.page(0, usize::MAX).lines.len(), MAX_BYTES / MAX_LINE_BYTES);
        assert_eq!(logs.page(0, 5).lines.len(), 5);
    }

    #[tokio::test]
    async fn who_follows_hears_every_line_once() {
        let logs = Logs::new();
        logs.say(LogStream::Stderr, "before");
        let mut follower = logs.follow(logs.newest());
        let writer = logs.clone();
        let writing = tokio::spawn(async move {
            for number in 0..100 {
                writer.say(LogStream::Stderr, &number.to_string());
                tokio::task::yield_now().await;
            }
        });
        let mut heard = Vec::new();
        while heard.len() < 100 {
            let page = follower.next().await.unwrap();
            heard.extend(page.lines.into_iter().map(|line| line.text));
        }
        writing.await.unwrap();
        assert_eq!(heard, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}
