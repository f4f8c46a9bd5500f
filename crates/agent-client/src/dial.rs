//! Byte streams to an agent, and who opens them.

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// Both directions of a byte stream.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A byte stream to an agent, whatever it runs over.
pub type AgentStream = Box<dyn ByteStream>;

/// A stream could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct DialError {
    /// What the provider said.
    pub reason: String,
}

/// Opens byte streams to one sandbox's agent. Called again whenever a stream is lost.
#[async_trait]
pub trait AgentDialer: Send + Sync {
    /// Opens a new stream. Bounded by the caller's deadline; may be cancelled at any point.
    async fn dial(&self) -> Result<AgentStream, DialError>;
}
