use std::sync::Arc;

use emergent_mcp_bridge::{Era, Phase};
use emergent_provider::VolumeMount;
use emergent_store::{McpServerRow, WorkspaceRow};
use emergent_types::ServerHealth;
use emergent_workspaces::volumes_of;
use time::OffsetDateTime;

use crate::crash::Crash;
use crate::registry::Server;

/// Where the bridge to a program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BridgeState {
    /// There is none: each client has its own.
    None,
    /// The handshake is going on, or is to come.
    Starting,
    /// Calls go through.
    Ready {
        /// `modern` or `legacy`.
        era: &'static str,
        /// Clients that are connected.
        clients: usize,
    },
    /// The program is gone.
    Ended {
        /// Why.
        reason: String,
    },
}

impl BridgeState {
    /// Its name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Starting => "starting",
            Self::Ready { .. } => "ready",
            Self::Ended { .. } => "ended",
        }
    }
}

/// A server as it is now.
#[derive(Debug, Clone)]
pub struct ServerView {
    /// How it is run.
    pub server: McpServerRow,
    /// Where.
    pub workspace: WorkspaceRow,
    /// What its sandbox has beside its own disk.
    pub volumes: Vec<VolumeMount>,
    /// How it is.
    pub health: ServerHealth,
    /// Starts that nobody asked for, since somebody last did.
    pub restart_count: u32,
    /// How its program last ended without being told to.
    pub last_crash: Option<Crash>,
    /// Since when its program runs.
    pub up_since: Option<OffsetDateTime>,
    /// When its program is started again.
    pub next_start: Option<OffsetDateTime>,
    /// The way to its program.
    pub bridge: BridgeState,
}

impl ServerView {
    pub(crate) fn new(server: &Arc<Server>, workspace: WorkspaceRow) -> Self {
        let status = server.status.borrow().clone();
        Self {
            volumes: volumes_of(&workspace),
            workspace,
            health: status.health(),
            restart_count: status.restarts,
            last_crash: status.last_crash,
            up_since: status.up_since,
            next_start: status.next_start,
            bridge: bridge_state(server),
            server: server.row(),
        }
    }
}

fn bridge_state(server: &Server) -> BridgeState {
    let row = server.row();
    if row.mode == emergent_types::ServerMode::Dedicated {
        return BridgeState::None;
    }
    let Some(bridge) = server.bridge() else { return BridgeState::Starting };
    match &*bridge.phase().borrow() {
        Phase::Starting => BridgeState::Starting,
        Phase::Ready(found) => BridgeState::Ready {
            era: match found.era {
                Era::Modern => "modern",
                Era::Legacy => "legacy",
            },
            clients: bridge.clients(),
        },
        Phase::Ended { reason, .. } => BridgeState::Ended { reason: reason.to_string() },
    }
}
