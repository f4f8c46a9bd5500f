//! Calls on a connection that has not greeted. Only the conformance suite wants them.

use emergent_protocol::v1::agent_client::AgentClient as Stub;

use crate::link::{Link, Transport};
use crate::{AgentError, AgentStream};

/// Typed calls over a stream on which nothing has been said yet.
pub async fn raw_stub(stream: AgentStream) -> Result<Stub<Transport>, AgentError> {
    Ok(Link::open_without_greeting(stream).await?.stub())
}
