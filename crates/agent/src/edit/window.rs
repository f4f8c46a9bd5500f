//! A stretch of a content that is searched, and read on where it ends.

use std::ops::{ControlFlow, Range};

use memchr::memmem;

use crate::error::CallError;

use super::content::Content;

/// A place where the text stands that is looked for.
pub(super) struct Place {
    /// Bytes of the content.
    pub(super) range: Range<u64>,
    /// Of each line end in it, in order: whether it is a `\r\n`. Only where line ends are
    /// unified.
    pub(super) ends: Vec<bool>,
}

/// How to look.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    /// What is looked for; not empty.
    pub(super) needle: &'a [u8],
    /// Where the text begins.
    pub(super) from: u64,
    /// Every `\r\n` of the content counts as `\n`.
    pub(super) unified: bool,
    /// Places that overlap are found too.
    pub(super) overlapping: bool,
}

/// Finds the places, in order.
pub(super) fn find<C: Content>(
    content: &mut C,
    look: Look<'_>,
    mut found: impl FnMut(&mut C, Place) -> Result<ControlFlow<()>, CallError>,
) -> Result<(), CallError> {
    let finder = memmem::Finder::new(look.needle);
    let mut window = Window::new(look.from, look.unified);
    let mut at = 0;
    loop {
        while let Some(start) = finder.find(window.text.get(at..).unwrap_or_default()) {
            let start = at + start;
            let end = start + look.needle.len();
            if found(content, window.place(start..end))?.is_break() {
                return Ok(());
            }
            at = if look.overlapping { start + 1 } else { end };
        }
        // What could still be the beginning of a place stays; of what comes after it at least
        // as much is looked at as was looked at before.
        let kept = at.max((window.text.len() + 1).saturating_sub(look.needle.len()));
        window.forget(kept);
        at = 0;
        if !window.read_on(content, look.needle.len())? {
            return Ok(());
        }
    }
}

struct Window {
    unified: bool,
    text: Vec<u8>,
    /// Where in the content the text begins.
    base: u64,
    /// Where in the text a `\n` is that was `\r\n`.
    shortened: Vec<usize>,
    /// A `\r` was read last, and it is not known yet what follows it.
    held: bool,
    /// Where in the content nothing has been read yet.
    next: u64,
}

impl Window {
    fn new(from: u64, unified: bool) -> Self {
        Self { unified, text: Vec::new(), base: from, shortened: Vec::new(), held: false, next: from }
    }

    fn place(&self, range: Range<usize>) -> Place {
        let ends = match self.unified {
            true => memchr::memchr_iter(b'\n', self.text.get(range.clone()).unwrap_or_default())
                .map(|at| self.shortened.binary_search(&(range.start + at)).is_ok())
                .collect(),
            false => Vec::new(),
        };
        Place { range: self.original(range.start)..self.original(range.end), ends }
    }

    /// Where an offset of the text is in the content; a line end has all its bytes after it.
    fn original(&self, offset: usize) -> u64 {
        self.base + (offset + self.shortened.partition_point(|&at| at < offset)) as u64
    }

    /// Lets go of the beginning of the text.
    fn forget(&mut self, until: usize) {
        let until = until.min(self.text.len());
        self.base = self.original(until);
        self.text.drain(..until);
        self.shortened.drain(..self.shortened.partition_point(|&at| at < until));
        for at in &mut self.shortened {
            *at -= until;
        }
    }

    /// Reads at least so many bytes, as far as there are any; `false` when there are none.
    fn read_on<C: Content>(&mut self, content: &mut C, least: usize) -> Result<bool, CallError> {
        let end = content.length();
        let before = self.text.len();
        while self.next < end && self.text.len() - before < least {
            let piece = content.piece(self.next..end)?;
            self.next += piece.len() as u64;
            if self.unified {
                self.take_unified(piece);
            } else {
                self.text.extend_from_slice(piece);
            }
        }
        if self.next == end && std::mem::take(&mut self.held) {
            self.text.push(b'\r');
        }
        Ok(self.text.len() > before)
    }

    fn take_unified(&mut self, mut piece: &[u8]) {
        if std::mem::take(&mut self.held) {
            if piece.first() == Some(&b'\n') {
                self.shorten();
                piece = piece.get(1..).unwrap_or_default();
            } else {
                self.text.push(b'\r');
            }
        }
        if let Some(rest) = piece.strip_suffix(b"\r") {
            self.held = true;
            piece = rest;
        }
        let mut copied = 0;
        for at in memmem::find_iter(piece, b"\r\n") {
            self.text.extend_from_slice(piece.get(copied..at).unwrap_or_default());
            self.shorten();
            copied = at + 2;
        }
        self.text.extend_from_slice(piece.get(copied..).unwrap_or_default());
    }

    fn shorten(&mut self) {
        self.shortened.push(self.text.len());
        self.text.push(b'\n');
    }
}

/// The 1-based lines of these offsets, which are in order; each line once.
pub(super) fn line_numbers<C: Content>(content: &mut C, offsets: &[u64]) -> Result<Vec<u64>, CallError> {
    let (mut line, mut counted) = (1, 0);
    let mut lines = Vec::new();
    for &offset in offsets {
        line += content.newlines(counted..offset, u64::MAX)?;
        counted = offset;
        lines.push(line);
    }
    lines.dedup();
    Ok(lines)
}
