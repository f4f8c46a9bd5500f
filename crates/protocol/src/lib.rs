//! The protocol between the control plane and `emergent-agent`: generated messages, the
//! generation handshake, and the HTTP/2 figures that both ends must agree on.

mod failure;
mod generation;
pub mod http2;

/// Messages and services of `proto/emergent/agent/v1/agent.proto`.
#[expect(missing_docs, reason = "generated; the .proto file carries the comments")]
#[cfg_attr(feature = "server", expect(clippy::allow_attributes, reason = "generated"))]
pub mod v1 {
    tonic::include_proto!("emergent.agent.v1");
}

pub use failure::FailureCode;
pub use generation::{GENERATION, UnsupportedGeneration, agree};

/// Names the environment variable by which init learns the sandbox's key (hexadecimal).
pub const KEY_VARIABLE: &str = "EMERGENT_AGENT_KEY";

/// Length of a sandbox's key in bytes.
pub const KEY_LENGTH: usize = 32;

/// The greatest message either side accepts. Bulk data travels in chunks far below it.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// How much file or output data one message carries.
pub const CHUNK_BYTES: usize = 64 << 10;
