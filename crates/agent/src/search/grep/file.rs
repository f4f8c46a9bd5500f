//! Searching one file.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use emergent_protocol::v1::GrepOutput;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::reader::{Reader, Seen};
use super::shown::{shown, shown_around};

/// What is shown of a line, in characters, and of a match that spans several.
const LINE_CHARS: usize = 2000;
const MULTILINE_CHARS: usize = 8000;

/// What a searcher may hold: its longest line, or with multiline the whole file. A file that
/// needs more is not searched to its end, and the answer is marked as incomplete.
const HEAP_BYTES: usize = 16 << 20;

/// What to look for in each file.
pub(super) struct Task {
    pub(super) matcher: RegexMatcher,
    pub(super) output: GrepOutput,
    pub(super) context: usize,
    pub(super) multiline: bool,
}

/// A match with what is around it.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) line: u64,
    pub(super) text: String,
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
}

impl Lines {
    /// What it costs in an answer.
    pub(super) fn bytes(&self) -> usize {
        let around = self.before.iter().chain(&self.after).map(|line| line.len() + 4).sum::<usize>();
        self.text.len() + around + 24
    }
}

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) matches: Vec<Lines>,
    /// Matches, with the outputs that have no lines; at most one when only files are wanted.
    pub(super) count: u64,
    /// What the answer says of it.
    pub(super) shown_count: u64,
    /// There are more matches than were wanted, or than there was room for.
    pub(super) has_more: bool,
    /// It was the room that was missing.
    pub(super) is_overfull: bool,
    /// It could not be searched to its end.
    pub(super) is_incomplete: bool,
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.count == 0 && !self.has_more && !self.is_incomplete
    }
}

/// Searches files one after another.
pub(super) struct FileSearch<'a> {
    task: &'a Task,
    searcher: Searcher,
}

impl<'a> FileSearch<'a> {
    pub(super) fn new(task: &'a Task) -> Self {
        let is_content = task.output == GrepOutput::Unspecified;
        // Never a memory map: a file that another process cuts short would kill the agent.
        let searcher = SearcherBuilder::new()
            // The reader sees to that.
            .binary_detection(BinaryDetection::none())
            .line_terminator(task.matcher.line_terminator().unwrap_or(LineTerminator::byte(b'\n')))
            .line_number(is_content)
            .multi_line(task.multiline)
            .before_context(if is_content { task.context } else { 0 })
            .after_context(if is_content { task.context } else { 0 })
            .heap_limit(Some(HEAP_BYTES))
            .build();
        Self { task, searcher }
    }

    /// What a file holds: `wanted` matches at most, of so many bytes. What cannot be opened
    /// or read is passed over, but for what has a path longer than paths may be.
    pub(super) fn search(
        &mut self,
        path: &Path,
        wanted: usize,
        room: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Found {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match open(path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(errno) => {
                return Found { is_incomplete: errno == Errno::NAMETOOLONG, ..Found::default() };
            }
        };
        let mut collector = Collector {
            task: self.task,
            wanted,
            room,
            found: Found::default(),
            recent: VecDeque::new(),
            open: 0,
        };
        let mut reader = Reader::new(file, is_over);
        let searched = self.searcher.search_reader(&self.task.matcher, &mut reader, &mut collector);
        let mut found = collector.found;
        match reader.seen() {
            Seen::Binary => return Found::default(),
            // What was found before counts. Where nothing was, it is a binary file like others.
            Seen::BecameBinary => {
                found.is_incomplete = !found.is_empty() && self.task.output != GrepOutput::Files;
            }
            Seen::Text => {}
        }
        if let Err(error) = searched {
            // A device or folder that came where a file was is no file; a line or file that
            // needs more memory than there is was not searched.
            found.is_incomplete |= error.raw_os_error().is_none() && !is_over();
        }
        found
    }
}

/// Notes what the searcher finds.
struct Collector<'a> {
    task: &'a Task,
    wanted: usize,
    room: usize,
    found: Found,
    /// The last lines, for the context before the next match.
    recent: VecDeque<(u64, String)>,
    /// How many matches at the end still want lines after them.
    open: usize,
}

impl Collector<'_> {
    /// A line that a match before it wants, and the next perhaps too.
    fn note(&mut self, line: u64, text: &str) {
        let context = self.task.context;
        if context == 0 {
            return;
        }
        let still_open = self.found.matches.len() - self.open;
        for found in self.found.matches.iter_mut().skip(still_open) {
            found.after.push(text.to_owned());
            self.room = self.room.saturating_sub(text.len());
        }
        self.open = self.found.matches.iter().rev().take_while(|found| found.after.len() < context).count();
        self.recent.push_back((line, text.to_owned()));
        if self.recent.len() > context {
            self.recent.pop_front();
        }
    }

    /// The context before a line: lines that lead up to it without a gap.
    fn before(&self, line: u64) -> Vec<String> {
        let mut wanted = line;
        let mut before: Vec<String> = Vec::new();
        for (number, text) in self.recent.iter().rev() {
            if number + 1 != wanted {
                break;
            }
            before.push(text.clone());
            wanted = *number;
        }
        before.reverse();
        before
    }

    fn add(&mut self, line: u64, bytes: &[u8]) -> bool {
        let most = if self.task.multiline { MULTILINE_CHARS } else { LINE_CHARS };
        if self.found.has_more || self.found.matches.len() >= self.wanted {
            self.found.has_more = true;
        } else {
            let text = self.shown(bytes, most);
            let lines = Lines { line, text, before: self.before(line), after: Vec::new() };
            if lines.bytes() > self.room {
                self.found.has_more = true;
                self.found.is_overfull = true;
                return false;
            }
            self.room -= lines.bytes();
            let opened = !self.found.has_more && self.task.context > 0;
            // Its own lines belong to the matches before it, not to itself.
            self.note_all(line, bytes);
            self.found.matches.push(lines);
            self.open += usize::from(opened);
            return true;
        }
        self.note_all(line, bytes);
        // What was found before may still want lines after it.
        self.open > 0
    }

    /// Lines that match: of long ones what is around the match.
    fn shown(&self, bytes: &[u8], most: usize) -> String {
        // A character has a byte at least.
        let found = if bytes.len() > most { self.task.matcher.find(bytes).ok().flatten() } else { None };
        let text = match found {
            Some(found) => shown_around(bytes, found.start()..found.end(), most),
            None => shown(bytes, most),
        };
        if self.task.multiline && text.contains("\r\n") { text.replace("\r\n", "\n") } else { text }
    }

    fn note_all(&mut self, first: u64, bytes: &[u8]) {
        if self.task.context == 0 {
            return;
        }
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        // Of a match over many lines only the last can be context of the next.
        for (number, line) in (first..).zip(lines) {
            self.note(number, &shown(line, LINE_CHARS));
        }
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        match self.task.output {
            GrepOutput::Files => {
                self.found.count = 1;
                Ok(false)
            }
            GrepOutput::Count => {
                self.found.count += 1;
                self.found.shown_count = self.found.count;
                Ok(true)
            }
            GrepOutput::Unspecified => Ok(self.add(found.line_number().unwrap_or(0), found.bytes())),
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.note(context.line_number().unwrap_or(0), &shown(context.bytes(), LINE_CHARS));
        Ok(!self.found.has_more || self.open > 0)
    }
}
