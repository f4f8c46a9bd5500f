//! `/api/v1/agent/workspaces`: their life, and the tools used in them.

pub(crate) mod bash;
pub(crate) mod create;
mod create_request;
pub(crate) mod destroy;
mod environment;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod resume;
pub(crate) mod stop;
mod text;
mod view;
pub(crate) mod write;
