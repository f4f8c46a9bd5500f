//! What happens on a server, while it happens.

use emergent_types::WorkspaceId;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::events::Events;
use crate::{Client, ClientError};

/// Which events, and from where on.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FollowEvents {
    /// Only these types, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<String>,
    /// Only what is about this workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// From the event after this one on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// `false` ends with what there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerEvent {
    /// Grows from event to event; asks for what comes after it.
    pub id: u64,
    /// What kind of thing, such as `workspace.state`; `events.lost` where some are missing.
    #[serde(rename = "type")]
    pub kind: String,
    /// When, in RFC 3339.
    pub at: String,
    /// The rest.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// What happens on a server.
pub struct EventStream(Events);

impl EventStream {
    /// The next event; `None` when the server ends the stream.
    pub async fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        let Some(event) = self.0.next().await? else { return Ok(None) };
        self.0.read(&event).map(Some)
    }
}

impl Client {
    /// Follows what happens.
    pub async fn follow_events(&self, request: &FollowEvents) -> Result<EventStream, ClientError> {
        let get = self.unbounded(Method::GET, "/api/v1/events").query(request);
        self.events(get).await.map(EventStream)
    }
}
