//! Hosted servers over the fake provider, with a real agent and a real program in each sandbox.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod calls;
mod http;
mod http_program;
mod lifecycle;
mod setup;
mod supervising;
