//! `/api/v1/agent/workspaces/providers`: who can make sandboxes here.

pub(crate) mod list;
