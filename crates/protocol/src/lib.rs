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

/// The greatest answer of an agent. Bulk data travels in chunks far below it.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The greatest request to an agent: whatever a JSON body of 16 MiB can hold, and then some.
pub const MAX_REQUEST_BYTES: usize = 18 << 20;

/// How much file or output data one message carries.
pub const CHUNK_BYTES: usize = 64 << 10;

/// The most files, lines or counts one search answers with.
pub const MAX_SEARCH_ITEMS: u32 = 10_000;

/// The longest pattern of a search, in bytes.
pub const MAX_PATTERN_BYTES: usize = 16 << 10;

/// The most lines of context before and after a match.
pub const MAX_CONTEXT_LINES: u32 = 100;
