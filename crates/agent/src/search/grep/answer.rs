//! What is answered: in order, and bounded.

use std::ops::ControlFlow;
use std::path::Path;

use emergent_protocol::v1;

use super::file::Found;

/// The most bytes of paths and lines in an answer, far below the message limit.
pub(super) const ANSWER_BYTES: usize = 1 << 20;

/// The answer so far.
pub(super) struct Answer {
    limit: usize,
    matches: Vec<v1::GrepMatch>,
    files: Vec<v1::GrepFile>,
    bytes: usize,
    truncated: bool,
}

impl Answer {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, matches: Vec::new(), files: Vec::new(), bytes: 0, truncated: false }
    }

    /// How many more there may be.
    pub(super) fn room(&self) -> usize {
        self.limit - self.matches.len().max(self.files.len())
    }

    /// How many more bytes there may be.
    pub(super) fn room_bytes(&self) -> usize {
        ANSWER_BYTES - self.bytes
    }

    /// Adds what was found in the next file; whether more is wanted.
    pub(super) fn add(&mut self, path: &Path, found: Found) -> ControlFlow<()> {
        if found.is_incomplete {
            self.note_incomplete();
        }
        let file = || path.to_string_lossy().into_owned();
        if found.count > 0 {
            let file = v1::GrepFile { file: file(), count: found.shown_count };
            if self.room() == 0 || !self.fits(file.file.len() + 16) {
                return self.full();
            }
            self.files.push(file);
        }
        for lines in found.matches {
            if self.room() == 0 || !self.fits(lines.bytes() + path.as_os_str().len()) {
                return self.full();
            }
            self.matches.push(v1::GrepMatch {
                file: file(),
                line: lines.line,
                text: lines.text,
                before: lines.before,
                after: lines.after,
            });
        }
        if found.has_more { self.full() } else { ControlFlow::Continue(()) }
    }

    /// Something was not searched that may have held more.
    pub(super) fn note_incomplete(&mut self) {
        self.truncated = true;
    }

    fn fits(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.room_bytes();
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    fn full(&mut self) -> ControlFlow<()> {
        self.truncated = true;
        ControlFlow::Break(())
    }

    pub(super) fn finish(self) -> v1::GrepResponse {
        v1::GrepResponse { matches: self.matches, files: self.files, truncated: self.truncated }
    }
}
