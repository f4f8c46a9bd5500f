//! Small closed vocabularies of hosted MCP servers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::workspace::{UnknownName, find_by_name, vocabulary};

vocabulary! {
    /// What happens when the program of a hosted MCP server ends.
    RestartPolicy {
        /// It is started again, however it ended.
        Always = "always",
        /// It is started again unless it ended with code 0.
        OnFailure = "on-failure",
        /// It stays ended until somebody restarts it.
        Never = "never",
    }
}

vocabulary! {
    /// Who shares the program of a hosted MCP server.
    ServerMode {
        /// Every client.
        Shared = "shared",
        /// Nobody: each client session has a process of its own.
        Dedicated = "dedicated",
    }
}

vocabulary! {
    /// How a hosted MCP server is.
    ServerHealth {
        /// Its program runs and answers.
        Ok = "ok",
        /// Its program is being started.
        Starting = "starting",
        /// Its program runs and answers neither `ping` nor `tools/list`.
        Unresponsive = "unresponsive",
        /// Its program ended too often; the next start waits.
        BackingOff = "backing_off",
        /// Its program ended, and its restart policy does not start it again.
        Ended = "ended",
    }
}
