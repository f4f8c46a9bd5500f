//! `/api/v1/agent/workspaces/{id}/processes`: commands that run in the background.

pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod list;
mod output;
pub(crate) mod signal;
mod signal_name;
mod view;
