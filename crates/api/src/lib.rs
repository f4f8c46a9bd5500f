//! The REST API.
//!
//! ```text
//!   connection ─► observe ─► catch panics ─► host and origin ─► access ─► endpoint
//!                request id                  403 for strangers   table     one file each
//! ```
//!
//! [`router`] is the table of contents: every path with the function that serves it. A
//! resource is a folder, an endpoint is a file in it, and both the routes and the OpenAPI
//! document come from the same lines, so that they cannot disagree.
//!
//! [`access`] is the table of who may call what; a route without a row is not served. A tool
//! call goes through [`extract::Tool`], which writes it to the [`audit`] log.
//!
//! An endpoint does three things: it reads a request into a value that is whole and valid
//! (`parse`), asks [`emergent_workspaces`] for it, and shows the result. What goes wrong on
//! the way is turned into an answer in one place, [`errors`].
//!
//! No type of the HTTP framework leaves this crate. When a client goes away, the future that
//! serves it is dropped, and a command it had asked for is killed; only a workspace that is
//! being created is made all the same.

mod access;
mod alerts;
mod answer_body;
mod audit;
mod auth;
mod connections;
mod errors;
mod events;
mod extract;
mod files;
mod git_hosts;
mod guest;
mod health;
mod hosts;
mod limits;
mod mcp;
mod metrics;
mod observe;
mod openapi;
mod options;
mod processes;
mod providers;
mod refused_head;
mod router;
mod service;
mod snapshots;
mod state;
mod streaming;
mod tokens;
mod unread;
mod warm_pool;
mod wire;
mod workspaces;

pub use auth::{BearerToken, NoRandomness};
pub use errors::ErrorCode;
pub use guest::WorkspaceInfo;
pub use hosts::{AllowedHost, ParseHostError};
pub use openapi::openapi_json;
pub use options::Options;
pub use service::{BindError, Service};
