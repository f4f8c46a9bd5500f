//! `/api/v1/agent/workspaces`: their life, and the tools used in them.

pub(crate) mod bash;
mod bash_events;
pub(crate) mod create;
mod create_request;
pub(crate) mod destroy;
pub(crate) mod edit;
mod environment;
pub(crate) mod get;
pub(crate) mod git;
mod git_answer;
mod git_request;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod resume;
pub(crate) mod stop;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod tunnel;
mod view;
pub(crate) mod watch;
pub(crate) mod write;
