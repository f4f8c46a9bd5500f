//! The name of a workspace's state, as the database and the API show it. The state machine
//! itself, whose states carry data, lives in `emergent-workspaces`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnknownName;
use crate::workspace::{find_by_name, vocabulary};

vocabulary! {
    /// Where a workspace is in its life.
    WorkspaceStatus {
        /// The row is written, the sandbox is being made.
        Creating = "creating",
        /// The agent answers.
        Ready = "ready",
        /// Processes are being ended, the disk stays.
        Stopping = "stopping",
        /// Only the disk is there.
        Stopped = "stopped",
        /// A sandbox is being made around the disk again.
        Resuming = "resuming",
        /// Everything is being removed; the row goes last.
        Destroying = "destroying",
        /// It could not be made or repaired; the reason is in the row.
        Failed = "failed",
    }
}

impl WorkspaceStatus {
    /// Whether a workspace in this state counts against the concurrency limit: it holds, or
    /// is about to hold, a running sandbox.
    pub fn counts_as_active(self) -> bool {
        matches!(self, Self::Creating | Self::Ready | Self::Stopping | Self::Resuming)
    }
}
