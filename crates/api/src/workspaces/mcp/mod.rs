//! The tools of a workspace for MCP clients: `send` is where they connect, [`toolbox`] calls the tools' own
//! endpoints, [`schemas`] describes them.

mod schemas;
pub(crate) mod send;
mod server;
mod toolbox;

pub(crate) use toolbox::Toolbox;
