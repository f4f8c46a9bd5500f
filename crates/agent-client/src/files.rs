//! Reading and writing files in the sandbox.

use std::time::Duration;

use bytes::Bytes;
use emergent_protocol::{CHUNK_BYTES, MAX_ANSWER_BYTES, v1};

use crate::client::{CALL_LIMIT, LISTING_BYTES, STREAM_MESSAGE_BYTES};
use crate::{AgentClient, AgentError};

/// How long a write of bounded size may take, fsync included.
const WRITE_LIMIT: Duration = Duration::from_secs(120);

/// How long the agent may take from chunk to chunk.
const CHUNK_LIMIT: Duration = Duration::from_secs(30);

/// What an entry of a folder takes in a message: a name as long as names can be, and the rest.
const ENTRY_BYTES: usize = 300;

/// What the read tool gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// Lines of a text file, each `N: text`.
    Text {
        /// The lines.
        content: String,
        /// How many lines the file has.
        total_lines: u64,
        /// There is more, or a line was cut.
        truncated: bool,
        /// The line to go on with.
        next_offset: Option<u64>,
    },
    /// A folder's entries, sorted, folders with a slash.
    Directory {
        /// The names.
        entries: Vec<String>,
        /// How many there are.
        total_entries: u64,
        /// There are more.
        truncated: bool,
        /// The entry to go on with.
        next_offset: Option<u64>,
    },
    /// Not text.
    Binary {
        /// Bytes.
        size: u64,
        /// The media type, as far as it can be told.
        mime: String,
    },
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A socket, a pipe, a device.
    Other,
}

impl FileKind {
    fn from_message(kind: v1::FileKind) -> Self {
        match kind {
            v1::FileKind::File => Self::File,
            v1::FileKind::Directory => Self::Directory,
            v1::FileKind::Symlink => Self::Symlink,
            v1::FileKind::Other | v1::FileKind::Unspecified => Self::Other,
        }
    }
}

/// What is known of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Unix milliseconds.
    pub modified_unix_ms: i64,
    /// Where a link points.
    pub target: Option<String>,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
}

/// A folder's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryListing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// There are more.
    pub truncated: bool,
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub bytes_written: u64,
    /// The file was not there before.
    pub created: bool,
}

/// A file's bytes as they come.
pub struct FileStream {
    chunks: tonic::Streaming<v1::FileChunk>,
    /// Came with the first message.
    first: Bytes,
    size: u64,
    modified_unix_ms: i64,
    /// What was asked for and has not come.
    rest: u64,
}

impl FileStream {
    /// The whole file's size when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When the file was last changed before it was opened, in Unix milliseconds.
    pub fn modified_unix_ms(&self) -> i64 {
        self.modified_unix_ms
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, AgentError> {
        if !self.first.is_empty() {
            return Ok(Some(std::mem::take(&mut self.first)));
        }
        let next = async {
            loop {
                match self
                    .chunks
                    .message()
                    .await
                    .map_err(|status| AgentError::from_status("read_file", &status))?
                {
                    Some(chunk) if chunk.data.is_empty() => {}
                    Some(chunk) => return self.counted(chunk.data).map(Some),
                    None => return Ok(None),
                }
            }
        };
        let next = tokio::time::timeout(CHUNK_LIMIT, next).await;
        next.unwrap_or(Err(AgentError::TimedOut { call: "read_file", limit: CHUNK_LIMIT }))
    }

    fn counted(&mut self, data: Bytes) -> Result<Bytes, AgentError> {
        match self.rest.checked_sub(data.len() as u64) {
            Some(rest) => self.rest = rest,
            None => return Err(AgentError::malformed("read_file", "more bytes than were asked for")),
        }
        Ok(data)
    }
}

impl AgentClient {
    /// The read tool: a page of text from a 1-based line, a folder, or what a binary file is.
    pub async fn read_page(&self, path: &str, offset: u64, limit: u64) -> Result<Page, AgentError> {
        let request = v1::ReadPageRequest { path: path.to_owned(), offset, limit };
        let answer = self
            .call("read_page", CALL_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.read_page(request).await }
            })
            .await?;
        let next = |offset: u64| (offset != 0).then_some(offset);
        let content = answer.content.ok_or_else(|| AgentError::malformed("read_page", "no content"))?;
        Ok(match content {
            v1::read_page_response::Content::Text(page) => Page::Text {
                content: page.content,
                total_lines: page.total_lines,
                truncated: page.truncated,
                next_offset: next(page.next_offset),
            },
            v1::read_page_response::Content::Directory(page) => Page::Directory {
                entries: page.entries,
                total_entries: page.total_entries,
                truncated: page.truncated,
                next_offset: next(page.next_offset),
            },
            v1::read_page_response::Content::Binary(file) => {
                Page::Binary { size: file.size, mime: file.mime.chars().take(128).collect() }
            }
        })
    }

    /// A file's bytes, from `offset`, at most `length` (0: to the end).
    pub async fn read_file(&self, path: &str, offset: u64, length: u64) -> Result<FileStream, AgentError> {
        let request = v1::ReadFileRequest { path: path.to_owned(), offset, length };
        let opened = async {
            let mut chunks = self
                .call("read_file", CALL_LIMIT, |stub| {
                    let request = request.clone();
                    let mut stub = stub.max_decoding_message_size(STREAM_MESSAGE_BYTES);
                    async move { stub.read_file(request).await }
                })
                .await?;
            let first =
                chunks.message().await.map_err(|status| AgentError::from_status("read_file", &status))?;
            // An agent of the time before says nothing of an empty file.
            let v1::FileChunk { data, size, modified_unix_ms } = first.unwrap_or_default();
            let rest = if length == 0 { u64::MAX } else { length };
            let mut stream = FileStream { chunks, first: Bytes::new(), size, modified_unix_ms, rest };
            stream.first = stream.counted(data)?;
            Ok(stream)
        };
        let opened = tokio::time::timeout(CALL_LIMIT, opened).await;
        opened.unwrap_or(Err(AgentError::TimedOut { call: "read_file", limit: CALL_LIMIT }))
    }

    /// Replaces a file atomically. Cancelling, or any failure, leaves the old content.
    pub async fn write_file(&self, path: &str, content: Bytes) -> Result<Written, AgentError> {
        let header = v1::WriteFileHeader {
            path: path.to_owned(),
            mode: 0,
            size_hint: content.len() as u64,
            user: String::new(),
        };
        let answer = self
            .call("write_file", WRITE_LIMIT, |mut stub| {
                let parts = write_parts(header.clone(), content.clone());
                async move { stub.write_file(futures::stream::iter(parts)).await }
            })
            .await?;
        Ok(Written { bytes_written: answer.bytes_written, created: answer.created })
    }

    /// What is known of a path; a link is not followed.
    pub async fn stat(&self, path: &str) -> Result<FileStat, AgentError> {
        self.stat_of(path, false).await
    }

    /// What is known of what a path leads to.
    pub async fn stat_followed(&self, path: &str) -> Result<FileStat, AgentError> {
        self.stat_of(path, true).await
    }

    async fn stat_of(&self, path: &str, follow_links: bool) -> Result<FileStat, AgentError> {
        let request = v1::StatRequest { path: path.to_owned(), follow_links };
        let stat = self
            .call("stat", CALL_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.stat(request).await }
            })
            .await?;
        Ok(FileStat {
            kind: FileKind::from_message(stat.kind()),
            size: stat.size,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            modified_unix_ms: stat.modified_unix_ms,
            target: (!stat.target.is_empty()).then_some(stat.target),
        })
    }

    /// A folder's entries, at most `limit` (0: the agent's default).
    pub async fn list_directory(&self, path: &str, limit: u32) -> Result<DirectoryListing, AgentError> {
        let request = v1::ListDirectoryRequest { path: path.to_owned(), limit };
        let most = LISTING_BYTES.max((limit as usize).saturating_mul(ENTRY_BYTES)).min(MAX_ANSWER_BYTES);
        let listed = self
            .call("list_directory", CALL_LIMIT, |stub| {
                let request = request.clone();
                let mut stub = stub.max_decoding_message_size(most);
                async move { stub.list_directory(request).await }
            })
            .await?;
        let entries = listed
            .entries
            .into_iter()
            .map(|entry| Entry {
                kind: FileKind::from_message(entry.kind()),
                name: entry.name,
                size: entry.size,
            })
            .collect();
        Ok(DirectoryListing { entries, truncated: listed.truncated })
    }

    /// Ends every process of the sandbox but init and agent, politely first, and syncs.
    /// Answers how many had to be killed.
    pub async fn quiesce(&self, grace: Duration) -> Result<u32, AgentError> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let request = v1::QuiesceRequest { grace_ms };
        let limit = grace + Duration::from_secs(1);
        let answer =
            self.call("quiesce", limit, |mut stub| async move { stub.quiesce(request).await }).await?;
        Ok(answer.killed)
    }
}

/// The header, then the content in chunks that share its memory.
fn write_parts(header: v1::WriteFileHeader, content: Bytes) -> Vec<v1::WriteFileRequest> {
    use v1::write_file_request::Part;
    let chunks = (0..content.len())
        .step_by(CHUNK_BYTES)
        .map(|start| Part::Data(content.slice(start..content.len().min(start + CHUNK_BYTES))));
    std::iter::once(Part::Header(header))
        .chain(chunks)
        .map(|part| v1::WriteFileRequest { part: Some(part) })
        .collect()
}
