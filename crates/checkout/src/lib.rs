//! Code for workspaces, and not one secret in them.
//!
//! ```text
//!  git in the sandbox ─► 127.0.0.1:9418 ─► agent ─► its stream ─► broker ─► https://host/…
//!                                                                │  ▲
//!                                       which repositories, and  │  │ the token, added here
//!                                       which operations: the row │  └ and to no other host
//! ```
//!
//! - [`RepositoryUrl`] is an address that was parsed and means what it says; [`Hosts`] says which hosts may
//!   be spoken to, and [`address`] which addresses a name may lead to.
//! - The [broker](mod@broker) passes git's smart HTTP on for exactly the repositories of the workspace that
//!   asks, and adds what the host wants to be shown.
//! - The [checkout](mod@checkout) clones what a workspace is to start with, again where the network failed.

mod address;
mod broker;
mod checkout;
mod connect;
mod credentials;
mod grants;
mod hosts;
mod origin;
mod pace;
mod pauses;
mod reference;
mod refusal;
mod service;
mod told;
mod transfers;
mod url;
mod uses;

pub use grants::Grant;
pub use hosts::{HostNotAllowed, Hosts};
pub use origin::{Origin, ParseOriginError};
pub use reference::{InvalidReference, check_reference};
pub use refusal::Refusal;
pub use service::{Handle, Limits, Options, Service, SetTokenError};
pub use url::{ParseUrlError, RepositoryUrl};

/// The port of the sandbox's loopback at which git finds the broker: that of git's own daemon, which nobody
/// runs there.
pub const BROKER_PORT: u16 = 9418;
