//! Hosted MCP servers on the embedded provider: a real control plane, real sandboxes, real programs.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

mod boot;
mod clients;
mod command_line;
mod conformance;
mod killing;
mod load;
mod programs;
mod ready_made;
mod sessions;
mod support;
mod workspace_tools;
