//! Opens streams to a workspace's agent through its provider.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_agent_client::{AgentDialer, AgentStream, DialError};
use emergent_provider::WorkspaceProvider;
use emergent_types::WorkspaceId;

pub(crate) struct ProviderDialer {
    pub(crate) provider: Arc<dyn WorkspaceProvider>,
    pub(crate) id: WorkspaceId,
}

#[async_trait]
impl AgentDialer for ProviderDialer {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        self.provider.connect(self.id).await.map_err(|error| DialError { reason: error.to_string() })
    }
}
