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
        self.take(stream, vec![text_of(text.as_bytes())]);
    }

    fn take(&self, stream: LogStream, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let newest = {
            let mut ring = self.ring();
            lines.into_iter().for_each(|line| ring.push(stream, line));
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
}

impl Ring {
    fn push(&mut self, stream: LogStream, text: String) {
        self.newest += 1;
        self.bytes += text.len();
        self.lines.push_back(LogLine { number: self.newest, at: emergent_store::now(), stream, text });
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

fn text_of(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]).into_owned()
}

/// What one program says. Its lines go to the log of its server, where those of other clients' programs are
/// too; the last lines of its stderr are kept here besides, for the reason of its end.
#[derive(Debug)]
pub(crate) struct Voice {
    logs: Arc<Logs>,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    /// What was heard of a line whose end was not: stderr's and stdout's.
    partial: [Vec<u8>; 2],
    tail: VecDeque<String>,
    tail_bytes: usize,
}

impl Voice {
    pub(crate) fn new(logs: Arc<Logs>) -> Arc<Self> {
        Arc::new(Self { logs, said: Mutex::default() })
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it wrote, wherever its lines end.
    pub(crate) fn write(&self, stream: LogStream, data: &[u8]) {
        let lines = self.said().hear(stream, data);
        self.logs.take(stream, lines);
    }

    /// It is over: what it did not end is a line too.
    pub(crate) fn flush(&self) {
        for stream in [LogStream::Stderr, LogStream::Stdout] {
            let rest = self.said().rest(stream);
            self.logs.take(stream, rest.into_iter().collect());
        }
    }

    /// The last lines of its stderr.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.said().tail.iter().cloned().collect()
    }
}

fn slot(stream: LogStream) -> usize {
    usize::from(stream == LogStream::Stdout)
}

impl Said {
    fn hear(&mut self, stream: LogStream, data: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = std::mem::take(&mut self.partial[slot(stream)]);
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE_BYTES.saturating_sub(line.len());
            let text = piece.strip_suffix(b"\n");
            let said = text.unwrap_or(piece);
            line.extend_from_slice(&said[..said.len().min(room)]);
            if text.is_some() {
                lines.push(self.keep(stream, text_of(&line)));
                line.clear();
            }
        }
        self.partial[slot(stream)] = line;
        lines
    }

    fn rest(&mut self, stream: LogStream) -> Option<String> {
        let rest = std::mem::take(&mut self.partial[slot(stream)]);
        (!rest.is_empty()).then(|| self.keep(stream, text_of(&rest)))
    }

    fn keep(&mut self, stream: LogStream, line: String) -> String {
        if stream == LogStream::Stderr {
            self.tail_bytes += line.len();
            self.tail.push_back(line.clone());
            while self.tail.len() > TAIL_LINES || (self.tail_bytes > TAIL_BYTES && self.tail.len() > 1) {
                let Some(oldest) = self.tail.pop_front() else { break };
                self.tail_bytes -= oldest.len();
            }
        }
        line
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
        let voice = Voice::new(logs.clone());
        voice.write(LogStream::Stderr, b"one\r\ntw");
        voice.write(LogStream::Stdout, b"beside\n");
        let other = Voice::new(logs.clone());
        other.write(LogStream::Stderr, b"somebody else's\nun");
        voice.write(LogStream::Stderr, b"o\n\nthr\xffee");
        assert_eq!(texts(&logs.page(0, 10)), ["one", "beside", "somebody else's", "two", ""]);
        voice.flush();
        assert_eq!(texts(&logs.page(5, 10)), ["thr\u{fffd}ee"]);
        assert_eq!(voice.tail(), ["one", "two", "", "thr\u{fffd}ee"]);
        assert_eq!(other.tail(), ["somebody else's"]);
        for _ in 0..3 {
            other.write(LogStream::Stderr, &[b'x'; TAIL_BYTES]);
            other.write(LogStream::Stderr, b"\nlast\n");
        }
        assert_eq!(other.tail(), ["last"], "what is kept of it is bounded");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let logs = Logs::new();
        for _ in 0..3 * MAX_LINES {
            logs.say(LogStream::Stderr, "x");
        }
        let voice = Voice::new(logs.clone());
        voice.write(LogStream::Stderr, &vec![b'y'; 100 * MAX_LINE_BYTES]);
        voice.flush();
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
