//! Changes of files while they happen.

use emergent_protocol::v1;

use crate::client::{CALL_LIMIT, STREAM_MESSAGE_BYTES};
use crate::{AgentClient, AgentError};

/// The longest path the kernel takes, and some room for what replaces invalid UTF-8.
const MAX_PATH_BYTES: usize = 3 * 4096;

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// Its content is new.
    Modified,
    /// It is gone.
    Removed,
    /// It has another name; the old one is in `old_path`.
    Renamed,
    /// Its mode, owner or times are new.
    Attributes,
    /// Changes were lost: look again.
    Overflow,
}

/// One change. The paths were told by the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// To which path; empty for an overflow.
    pub path: String,
    /// Where it was before a rename.
    pub old_path: Option<String>,
    /// It is a folder.
    pub directory: bool,
}

/// Changes as they come. Dropping it ends the watch.
pub struct WatchStream {
    events: tonic::Streaming<v1::WatchEvent>,
}

impl WatchStream {
    /// The next change; `None` when what was watched is gone. Waits as long as nothing changes.
    pub async fn next(&mut self) -> Result<Option<Change>, AgentError> {
        let event =
            self.events.message().await.map_err(|status| AgentError::from_status("watch", &status))?;
        event.map(change).transpose()
    }
}

fn change(event: v1::WatchEvent) -> Result<Change, AgentError> {
    let kind = match event.kind() {
        v1::ChangeKind::Created => ChangeKind::Created,
        v1::ChangeKind::Modified => ChangeKind::Modified,
        v1::ChangeKind::Removed => ChangeKind::Removed,
        v1::ChangeKind::Renamed => ChangeKind::Renamed,
        v1::ChangeKind::Attributes => ChangeKind::Attributes,
        v1::ChangeKind::Overflow => ChangeKind::Overflow,
        v1::ChangeKind::Watching | v1::ChangeKind::Unspecified => {
            return Err(AgentError::malformed("watch", format!("a change of kind {}", event.kind)));
        }
    };
    if event.path.len() > MAX_PATH_BYTES || event.old_path.len() > MAX_PATH_BYTES {
        return Err(AgentError::malformed("watch", "a path longer than paths can be"));
    }
    let old_path = (!event.old_path.is_empty()).then_some(event.old_path);
    Ok(Change { kind, path: event.path, old_path, directory: event.directory })
}

impl AgentClient {
    /// Watches a folder or a file. When this returns, what changes from now on is seen.
    pub async fn watch(&self, path: &str, recursive: bool) -> Result<WatchStream, AgentError> {
        let request = v1::WatchRequest { path: path.to_owned(), recursive };
        let opened = async {
            let mut events = self
                .call("watch", CALL_LIMIT, |stub| {
                    let request = request.clone();
                    let mut stub = stub.max_decoding_message_size(STREAM_MESSAGE_BYTES);
                    async move { stub.watch(request).await }
                })
                .await?;
            let first = events.message().await.map_err(|status| AgentError::from_status("watch", &status))?;
            match first.map(|event| event.kind()) {
                Some(v1::ChangeKind::Watching) => Ok(WatchStream { events }),
                _ => Err(AgentError::malformed("watch", "it does not begin with the watch being in place")),
            }
        };
        let opened = tokio::time::timeout(CALL_LIMIT, opened).await;
        opened.unwrap_or(Err(AgentError::TimedOut { call: "watch", limit: CALL_LIMIT }))
    }
}
