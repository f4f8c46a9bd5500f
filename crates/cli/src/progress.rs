//! Shows a person that something goes on.

use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::io::{AsyncRead, ReadBuf};

use crate::output::Output;

/// Characters of a line that is passed on; a longer one would be broken into two.
const LINE: usize = 60;

/// A bar or a spinner on standard error, where a person looks at it; nothing otherwise.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Bytes that are copied.
    pub(crate) fn bytes(output: Output) -> Self {
        Self::with_style(output, "{bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go")
    }

    /// Something that takes a while.
    pub(crate) fn waiting(output: Output, what: &'static str) -> Self {
        let progress = Self::with_style(output, "{spinner} {msg} {elapsed}");
        progress.0.set_message(what);
        progress
    }

    fn with_style(output: Output, template: &str) -> Self {
        if output.is_json() || !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(0);
        // The templates are ours and known to be right.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// What is being done right now: one line of whoever does it.
    pub(crate) fn say(&self, line: &str) {
        let line = line.chars().filter(|c| !c.is_control()).take(LINE).collect::<String>();
        self.0.set_message(line);
    }

    /// So much more is to come.
    pub(crate) fn expect(&self, more: u64) {
        self.0.inc_length(more);
    }

    /// So much more is done.
    pub(crate) fn advance(&self, done: u64) {
        self.0.inc(done);
    }

    /// Counts what is read from it.
    pub(crate) fn watch<R: AsyncRead + Unpin>(&self, content: R) -> Watched<R> {
        Watched { content, bar: self.0.clone() }
    }

    /// Leaves no trace of itself.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Content whose bytes are counted.
pub(crate) struct Watched<R> {
    content: R,
    bar: ProgressBar,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.content).poll_read(context, buffer);
        self.bar.inc((buffer.filled().len() - before) as u64);
        read
    }
}
