//! What a background process has printed, page by page.

use std::time::Duration;

use emergent_agent_client::{OutputFollower, StreamKind};
use emergent_workspaces::{ToolCall, ToolError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::errors::{ApiError, ErrorCode};

/// The largest page.
const MAX_PAGE_BYTES: usize = 50 << 10;

/// How long the agent may take for a page. What was printed is there already.
pub(super) const PAGE_LIMIT: Duration = Duration::from_secs(10);

/// A page of what a process has printed.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct OutputPage {
    /// Where `text` begins, in bytes from the first one ever printed. Greater than what was
    /// asked for where that is no longer kept.
    offset: u64,
    /// At most 50 KiB. What is not UTF-8 is replaced.
    text: String,
    /// Where to go on.
    next_offset: u64,
}

impl OutputPage {
    pub(super) fn new(offset: u64, text: String, next_offset: u64) -> Self {
        Self { offset, text, next_offset }
    }
}

/// Reads a page from `offset` on.
pub(super) async fn read(
    tool: &ToolCall,
    process_id: u64,
    stream: StreamKind,
    offset: u64,
) -> Result<OutputPage, ApiError> {
    let chunks = tool.process_output(process_id, stream, offset, false).await?;
    let (begin, bytes) =
        tokio::time::timeout(PAGE_LIMIT, collect(chunks, offset)).await.map_err(|_| {
            ApiError::new(
                ErrorCode::Timeout,
                format!("process {process_id}: its output did not arrive in time"),
            )
        })??;
    Ok(page(begin, &bytes))
}

async fn collect(mut chunks: OutputFollower, offset: u64) -> Result<(u64, Vec<u8>), ApiError> {
    let mut begin = offset;
    let mut bytes = Vec::new();
    while bytes.len() < MAX_PAGE_BYTES {
        let Some(chunk) = chunks.next().await.map_err(ToolError::from)? else { break };
        if bytes.is_empty() {
            begin = chunk.offset;
        }
        bytes.extend_from_slice(&chunk.data[..chunk.data.len().min(MAX_PAGE_BYTES - bytes.len())]);
    }
    Ok((begin, bytes))
}

fn page(offset: u64, bytes: &[u8]) -> OutputPage {
    let bytes = &bytes[..bytes.len() - cut_character(bytes)];
    OutputPage {
        offset,
        text: String::from_utf8_lossy(bytes).into_owned(),
        next_offset: offset.saturating_add(bytes.len() as u64),
    }
}

/// How many bytes at the end are the beginning of a character whose rest is still to come.
/// They belong to the next page, unless this one would be empty without them.
fn cut_character(bytes: &[u8]) -> usize {
    // A character has four bytes at most, so one that is not whole has begun within the last three.
    let is_begun = |length: &usize| {
        let end = &bytes[bytes.len() - length..];
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    let begun = (1..=bytes.len().min(3)).find(is_begun).unwrap_or(0);
    if begun == bytes.len() { 0 } else { begun }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], text: &str, next_offset: u64) {
        assert_eq!(
            page(10, bytes),
            OutputPage { offset: 10, text: text.to_owned(), next_offset },
            "{bytes:?}"
        );
    }

    #[test]
    fn a_character_is_not_torn() {
        check(b"", "", 10);
        check(b"abc", "abc", 13);
        check("aä".as_bytes(), "aä", 13);
        check(b"a\xc3", "a", 11);
        check(b"a\xf0\x9f\x98", "a", 11);
        check("abcd😀".as_bytes(), "abcd😀", 18);
        // Alone it will never become whole on this page.
        check(b"\xc3", "\u{fffd}", 11);
        check("中中".as_bytes().split_last().unwrap().1, "中", 13);
        // Not the beginning of anything.
        check(b"ab\xff", "ab\u{fffd}", 13);
    }

    proptest::proptest! {
        /// However it is cut into pages, it is the same text.
        #[test]
        fn pages_joined_are_what_was_printed(text in "[aé中😀]{0,40}", length in 4_usize..20) {
            let (bytes, mut joined, mut at) = (text.as_bytes(), String::new(), 0);
            while at < bytes.len() {
                let read = page(at as u64, &bytes[at..bytes.len().min(at + length)]);
                joined.push_str(&read.text);
                at = usize::try_from(read.next_offset).unwrap();
            }
            proptest::prop_assert_eq!(joined, text);
        }
    }
}
