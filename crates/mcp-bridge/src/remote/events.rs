//! Server-sent events, none longer than allowed.

use std::io;
use std::time::Duration;

use futures::StreamExt as _;

use super::Pieces;

/// One event. What is empty was not said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) retry: Option<Duration>,
    pub(super) data: String,
}

/// Reads events from a body.
pub(super) struct Events {
    body: Pieces,
    longest: usize,
    /// Read and not yet taken.
    unread: Vec<u8>,
    /// How much of `unread` is known to have no line end.
    searched: usize,
    /// Whether a line feed that comes next belongs to a line that is taken.
    after_return: bool,
    begun: Event,
    has_data: bool,
}

impl Events {
    pub(super) fn new(body: Pieces, longest: usize) -> Self {
        Self {
            body,
            longest,
            unread: Vec::new(),
            searched: 0,
            after_return: false,
            begun: Event::default(),
            has_data: false,
        }
    }

    /// The next event; `None` at the end. An event that the end cuts off is none.
    pub(super) async fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            while let Some(line) = self.line() {
                if let Some(event) = self.field(&line) {
                    return Ok(Some(event));
                }
            }
            if self.unread.len() + self.begun.data.len() > self.longest {
                let reason = format!("an event of the server is longer than {} bytes", self.longest);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
            }
            match self.body.next().await {
                Some(piece) => self.unread.extend_from_slice(&piece?),
                None => return Ok(None),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        if self.after_return && self.unread.first() == Some(&b'\n') {
            self.unread.remove(0);
        }
        self.after_return &= self.unread.is_empty();
        let fresh = &self.unread[self.searched..];
        let Some(end) = fresh.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.searched = self.unread.len();
            return None;
        };
        let end = self.searched + end;
        self.after_return = self.unread[end] == b'\r';
        let line = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        self.unread.drain(..=end);
        self.searched = 0;
        Some(line)
    }

    /// Takes a line; an empty one ends the event.
    fn field(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            self.has_data = false;
            let event = std::mem::take(&mut self.begun);
            return (event != Event::default()).then_some(event);
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.begun.data.push('\n');
                }
                self.has_data = true;
                self.begun.data.push_str(value);
            }
            "id" if !value.is_empty() => self.begun.id = Some(value.to_owned()),
            "retry" => self.begun.retry = value.parse().ok().map(Duration::from_millis),
            // Comments, and the type of the event, which is always a message.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;

    use super::*;

    async fn read(pieces: &[&str], longest: usize) -> io::Result<Vec<Event>> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from((*piece).to_owned()))).collect();
        let mut events = Events::new(stream::iter(pieces).boxed(), longest);
        let mut all = Vec::new();
        while let Some(event) = events.next().await? {
            all.push(event);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn events_in_any_pieces_and_with_any_line_ends() {
        let text = "\u{feff}: hello\n\nid: 1\nretry: 250\ndata:\n\nevent: message\rdata: {\"a\":\rdata: 1}\r\r\n:\r\n\ndata: cut";
        let whole = [
            Event { id: Some("1".into()), retry: Some(Duration::from_millis(250)), data: String::new() },
            Event { data: "{\"a\":\n1}".into(), ..Event::default() },
        ];
        assert_eq!(read(&[text], 1000).await.unwrap(), whole);
        let single: Vec<String> = text.chars().map(String::from).collect();
        let single: Vec<&str> = single.iter().map(String::as_str).collect();
        assert_eq!(read(&single, 1000).await.unwrap(), whole);
    }

    #[tokio::test]
    async fn an_event_that_is_too_long_is_refused_before_it_is_whole() {
        let long = format!("data: {}", "x".repeat(1000));
        assert!(read(&[&long], 500).await.is_err());
        let many = "data: 0123456789\n".repeat(100);
        assert!(read(&[&many], 500).await.is_err());
        assert!(read(&[&format!("{long}\n\n")], 2000).await.is_ok());
    }
}
