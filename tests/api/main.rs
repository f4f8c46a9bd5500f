//! The REST API of a real server with the embedded provider, over HTTP.
//!
//! Every answer is compared with the OpenAPI document: its status must be one that the
//! endpoint is said to have, and its body must fit the schema.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

mod access;
mod api;
mod audit;
mod bad_input;
mod bash;
mod checkout;
mod contract;
mod create;
mod database_gone;
mod destroy;
mod disconnect;
mod edit;
mod environment;
mod expiry;
mod files;
mod files_transfer;
mod git;
mod heads;
mod idempotency;
mod listing;
mod observe;
mod places;
mod processes;
mod providers;
mod retention;
mod search;
mod shutdown;
mod sockets;
mod sse;
mod stalled;
mod stop_and_resume;
mod switched_off;
mod terminal;
mod tokens;
mod tunnel;
mod watch;
