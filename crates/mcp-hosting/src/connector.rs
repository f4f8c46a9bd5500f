//! The way of MCP clients to a hosted server.

use std::sync::Arc;

use emergent_mcp_bridge::front::{Connector, OpenError, Opened, Opening, Sharing};
use emergent_types::ServerMode;

use crate::error::CallFailure;
use crate::registry::Server;
use crate::{Dedicated, Handle};

/// The way of MCP clients to a hosted server.
#[derive(Clone)]
pub struct Way {
    handle: Handle,
    server: Arc<Server>,
    edition: u64,
    sharing: Sharing,
}

impl Way {
    /// Moves on whenever clients have to connect anew, because the server is run in another way.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// How many sessions one client may have at most, where each has a process: half of what there may be, so
    /// that there is something left for others.
    pub fn most_sessions_of_one(&self) -> Option<usize> {
        let most = self.handle.context.options.max_dedicated;
        (self.sharing == Sharing::Dedicated).then(|| most.div_ceil(2))
    }
}

impl Handle {
    /// The way to a server, as it is run now.
    pub fn way(&self, name_or_id: &str) -> Result<Way, CallFailure> {
        let server = self.find_for_call(name_or_id)?;
        let row = server.row();
        let sharing = match row.mode {
            ServerMode::Shared => Sharing::Shared,
            ServerMode::Dedicated => Sharing::Dedicated,
        };
        Ok(Way { handle: self.clone(), edition: server.edition(), server, sharing })
    }
}

#[async_trait::async_trait]
impl Connector for Way {
    fn sharing(&self) -> Sharing {
        self.sharing
    }

    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        match self.sharing {
            Sharing::Shared => {
                let handle = self.handle.bridge(&self.server.name).map_err(refused)?;
                Ok(Opened { handle, guard: None })
            }
            Sharing::Dedicated => {
                let dedicated = self.handle.dedicated(&self.server.name, opening.declaration).await;
                let dedicated: Dedicated = dedicated.map_err(refused)?;
                Ok(Opened { handle: dedicated.bridge().clone(), guard: Some(Box::new(dedicated)) })
            }
        }
    }
}

fn refused(failure: CallFailure) -> OpenError {
    match failure {
        CallFailure::TooManyProcesses { .. } => OpenError::TooMany,
        failure => OpenError::Unavailable(failure.to_string()),
    }
}
