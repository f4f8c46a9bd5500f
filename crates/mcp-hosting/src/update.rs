//! Changes of a registration.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use emergent_store::{Environment, McpServerRow};
use emergent_types::{RestartPolicy, ServerMode};

use crate::registration::{Checking, Problems};

/// What is to be different. What is `None` stays as it is. What a sandbox is made of (image, provider, limits,
/// volumes, network) cannot change: a server with others is another server.
#[derive(Debug, Clone, Default)]
pub struct Update {
    /// The program and its arguments; `Some(None)` is the image's own.
    pub command: Option<Option<Vec<String>>>,
    /// What happens when the program ends.
    pub restart_policy: Option<RestartPolicy>,
    /// Who shares the program.
    pub mode: Option<ServerMode>,
    /// One call at a time.
    pub serialize: Option<bool>,
    /// The tools that may be used; `Some(None)` is all.
    pub tools_allow: Option<Option<Vec<String>>>,
    /// The tools that may not be used.
    pub tools_deny: Option<Vec<String>>,
    /// How long a call may take.
    pub call_timeout_ms: Option<u64>,
    /// Where a server listens that speaks HTTP itself.
    pub port: Option<u64>,
    /// Where such a server is spoken to.
    pub path: Option<String>,
    /// Every environment variable of the program.
    pub environment: Option<BTreeMap<String, String>>,
}

impl Update {
    /// The registration as it is then.
    pub(crate) fn applied_to(self, row: &McpServerRow) -> Result<McpServerRow, Problems> {
        let mut checking = Checking::default();
        let mut new = McpServerRow { updated_at: emergent_store::now(), ..row.clone() };
        if let Some(command) = self.command {
            new.command = command.and_then(|command| checking.command(command));
        }
        if new.command.is_none() && new.image.is_none() {
            checking.problem("command", "is needed: without an image nobody knows what to run");
        }
        new.restart_policy = self.restart_policy.unwrap_or(row.restart_policy);
        new.mode = self.mode.unwrap_or(row.mode);
        new.serialize = self.serialize.unwrap_or(row.serialize);
        if let Some(allow) = self.tools_allow {
            new.tools_allow = allow.map(|names| checking.tools("tools_allow", names));
        }
        if let Some(deny) = self.tools_deny {
            new.tools_deny = checking.tools("tools_deny", deny);
        }
        if let Some(timeout) = self.call_timeout_ms {
            new.call_timeout_ms = checking.call_timeout(Some(timeout)).map_or(0, NonZeroU32::get);
        }
        if let Some(port) = self.port {
            match row.stdio_bridge {
                true => checking.problem("port", "only a server without a stdio bridge listens"),
                false => new.port = checking.port(port),
            }
        }
        if let Some(path) = self.path {
            match row.stdio_bridge {
                true => checking.problem("path", "only a server without a stdio bridge listens"),
                false => new.path = checking.path(path),
            }
        }
        if let Some(environment) = self.environment {
            new.environment = Environment::from_iter(checking.environment(environment));
        }
        checking.done(new)
    }
}

/// Whether what runs now is not what would be started.
pub(crate) fn needs_restart(before: &McpServerRow, after: &McpServerRow) -> bool {
    before.command != after.command
        || before.mode != after.mode
        || before.serialize != after.serialize
        || before.port != after.port
        || before.path != after.path
        || before.environment != after.environment
}
