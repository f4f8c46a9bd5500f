//! Letting go of a connection that nobody needs for now.

use std::time::Duration;

use emergent_protocol::v1;

use crate::{AgentClient, AgentError};

/// An agent that takes longer to answer is busy, and whoever is busy is not left alone.
const PART_LIMIT: Duration = Duration::from_secs(5);

impl AgentClient {
    /// How many processes are alive in the sandbox, whoever started them; `None` where there is no
    /// connection to ask over, and none is made. `deadline_unix_ms` holds from now on, also for
    /// later greetings; see [`Greeting`](crate::Greeting).
    pub async fn part(&self, deadline_unix_ms: u64) -> Result<Option<u32>, AgentError> {
        let Some(link) = self.current_link().await else { return Ok(None) };
        self.set_deadline(deadline_unix_ms);
        let mut stub = link.stub();
        let answer = tokio::time::timeout(PART_LIMIT, stub.part(v1::PartRequest { deadline_unix_ms })).await;
        let answer = answer.map_err(|_| AgentError::TimedOut { call: "part", limit: PART_LIMIT })?;
        let answer = answer.map_err(|status| AgentError::from_status("part", &status))?;
        Ok(Some(answer.into_inner().alive))
    }
}
