//! A real server with a real Docker and gVisor behind it, over HTTP.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

mod fallback;
mod faults;
mod host;
mod workspaces;
