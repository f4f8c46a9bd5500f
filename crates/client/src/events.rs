//! What goes on while it goes on: server-sent events.

use std::time::Duration;

use emergent_types::WorkspaceId;
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::ErrorContent;
use crate::workspaces::WORKSPACES;
use crate::{BashRequest, Client, ClientError, FinishedCommand, OutputPage, OutputStream};

/// How long the server may be silent. It sends a comment every ten seconds.
const IDLE_LIMIT: Duration = Duration::from_secs(90);

/// The largest event.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// What happens while a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// It runs.
    Started,
    /// It printed something.
    Stdout(String),
    /// It printed something to standard error.
    Stderr(String),
    /// It has ended. Nothing comes after this.
    Exit(Box<FinishedCommand>),
}

/// A command while it runs. Dropping it kills the command.
pub struct CommandStream(Events);

/// A change of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// What happened.
    pub kind: FileChangeKind,
    /// To which path; empty for an overflow.
    pub path: String,
    /// Where it was, for a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// Whether it is a folder.
    pub directory: bool,
}

/// What happened to a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChangeKind {
    /// It is new.
    Created,
    /// Its content is new.
    Modified,
    /// It is gone.
    Removed,
    /// It has another name.
    Renamed,
    /// Its mode, owner or times are new.
    Attributes,
    /// Changes were lost: look again.
    Overflow,
}

/// Changes while they happen.
pub struct WatchStream(Events);

/// What a background process prints.
pub struct OutputFollower(Events);

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct ChangeData {
    path: String,
    #[serde(default)]
    old_path: Option<String>,
    directory: bool,
}

impl CommandStream {
    /// The next event; `None` when there are no more.
    pub async fn next(&mut self) -> Result<Option<CommandEvent>, ClientError> {
        loop {
            let Some(event) = self.0.next().await? else { return Ok(None) };
            return Ok(Some(match event.name.as_str() {
                "started" => CommandEvent::Started,
                "stdout" => CommandEvent::Stdout(self.0.read::<Text>(&event)?.text),
                "stderr" => CommandEvent::Stderr(self.0.read::<Text>(&event)?.text),
                "exit" => CommandEvent::Exit(self.0.read(&event)?),
                _ => continue,
            }));
        }
    }
}

impl WatchStream {
    /// The next change; `None` when what was watched is gone.
    pub async fn next(&mut self) -> Result<Option<FileChange>, ClientError> {
        loop {
            let Some(event) = self.0.next().await? else { return Ok(None) };
            let Some(kind) = FileChangeKind::named(&event.name) else { continue };
            let ChangeData { path, old_path, directory } = self.0.read(&event)?;
            return Ok(Some(FileChange { kind, path, old_path, directory }));
        }
    }
}

impl FileChangeKind {
    fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

impl OutputFollower {
    /// The next piece; `None` when there is no more.
    pub async fn next(&mut self) -> Result<Option<OutputPage>, ClientError> {
        loop {
            let Some(event) = self.0.next().await? else { return Ok(None) };
            if event.name == "output" {
                return self.0.read(&event).map(Some);
            }
        }
    }
}

impl Client {
    /// Runs a command and gives its output while it comes.
    pub async fn exec_stream(
        &self,
        id: WorkspaceId,
        request: &BashRequest,
    ) -> Result<CommandStream, ClientError> {
        let post = self.unbounded(Method::POST, &format!("{WORKSPACES}/{id}/bash")).json(request);
        self.events(post).await.map(CommandStream)
    }

    /// Watches a folder or a file. When this returns, what changes from now on is seen.
    pub async fn watch(
        &self,
        id: WorkspaceId,
        path: Option<&str>,
        recursive: bool,
    ) -> Result<WatchStream, ClientError> {
        let get = self.unbounded(Method::GET, &format!("{WORKSPACES}/{id}/watch"));
        let get = get.query(&[("recursive", recursive)]);
        self.events(path.iter().fold(get, |get, path| get.query(&[("path", path)]))).await.map(WatchStream)
    }

    /// What a background process has printed from `offset` on; with `follow`, until it has ended.
    pub async fn follow_process(
        &self,
        id: WorkspaceId,
        process_id: u64,
        stream: OutputStream,
        offset: u64,
        follow: bool,
    ) -> Result<OutputFollower, ClientError> {
        let path = format!("{WORKSPACES}/{id}/processes/{process_id}/output");
        let get = self.unbounded(Method::GET, &path);
        let get = get.query(&[("stream", stream)]).query(&[("offset", offset)]).query(&[("follow", follow)]);
        self.events(get).await.map(OutputFollower)
    }

    pub(crate) async fn events(&self, request: reqwest::RequestBuilder) -> Result<Events, ClientError> {
        let response = self.open(request.header(ACCEPT, "text/event-stream")).await?;
        Ok(Events { client: self.clone(), response, parser: Parser::default() })
    }
}

/// The events of one answer.
pub(crate) struct Events {
    client: Client,
    response: Response,
    parser: Parser,
}

impl Events {
    /// The next event. One that says that something failed is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.parser.next() {
                if event.name == "error" {
                    let error: ErrorContent = self.read(&event)?;
                    return Err(ClientError::Api(error.into_failure(self.response.status().as_u16())));
                }
                return Ok(Some(event));
            }
            if self.parser.is_too_long() {
                return Err(self.client.unexpected(200, &"an event without an end"));
            }
            match tokio::time::timeout(IDLE_LIMIT, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.parser.push(&bytes),
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(self.client.unreachable(&error)),
                Err(_) => {
                    return Err(ClientError::Unreachable {
                        url: self.client.url().to_owned(),
                        reason: format!("nothing came for {} seconds", IDLE_LIMIT.as_secs()),
                    });
                }
            }
        }
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, event: &Event) -> Result<T, ClientError> {
        serde_json::from_str(&event.data).map_err(|error| self.client.unexpected(200, &error))
    }
}

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    name: String,
    data: String,
}

/// Takes bytes and gives events.
#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    /// Everything before this has been given.
    begin: usize,
    event: Event,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        self.buffer.extend_from_slice(bytes);
    }

    fn is_too_long(&self) -> bool {
        self.buffer.len() - self.begin + self.event.data.len() > MAX_EVENT_BYTES
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            let rest = &self.buffer[self.begin..];
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = String::from_utf8_lossy(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]));
            let line = line.into_owned();
            self.begin += end + 1;
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if !event.data.is_empty() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.event.name),
                "data" => {
                    if !self.event.data.is_empty() {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                }
                // A comment, or something that is not used here.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = b":\n\nevent: stdout\ndata: {\"text\":\"\xc3\xa4\"}\n\nevent:exit\r\ndata:1\r\ndata: 2\r\n\r\n: c\n\nid: x\n\n";
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in text.chunks(size) {
                parser.push(piece);
                while let Some(event) = parser.next() {
                    events.push((event.name, event.data));
                }
            }
            let expect = [("stdout", "{\"text\":\"ä\"}"), ("exit", "1\n2")]
                .map(|(name, data)| (name.to_owned(), data.to_owned()));
            assert_eq!(events, expect, "{size}");
        }
    }

    #[test]
    fn kinds_of_changes() {
        assert_eq!(FileChangeKind::named("created"), Some(FileChangeKind::Created));
        for other in ["watching", "end", "", "Created"] {
            assert_eq!(FileChangeKind::named(other), None, "{other}");
        }
    }
}
