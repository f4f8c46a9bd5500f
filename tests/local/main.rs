//! Faults, leaks and the command line, on the embedded provider.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

mod agent_lost;
mod command_line;
mod command_line_tools;
mod disk_watch;
mod doctor;
mod many;
mod server_killed;
mod siege;
mod support;
