use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::{Declaration, Handle};

/// Who asks: an opaque name of a token. Sessions belong to it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A principal by its name.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(Arc::from(name.as_ref()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Principal").field(&self.as_str()).finish()
    }
}

/// Who shares a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All clients.
    Shared,
    /// Nobody: each client session has its own.
    Dedicated,
}

/// Who wants to be let in.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The principal.
    pub principal: Principal,
    /// What the client said about itself. It is for [`Mode::Dedicated`](crate::Mode::Dedicated).
    /// `None` for requests that stand alone: a dedicated process that is opened for them has to be
    /// in [`Mode::Shared`](crate::Mode::Shared), since several of them may be open at once.
    pub declaration: Option<Declaration>,
}

/// A way to a server.
pub struct Opened {
    /// The bridge.
    pub handle: Handle,
    /// Dropped when the session ends, so that its process can be ended.
    pub guard: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// Why there is no way to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It cannot be used now.
    #[error("the server is not available: {0}")]
    Unavailable(String),
    /// There are too many processes already.
    #[error("no more processes of the server may be started")]
    TooMany,
}

/// Finds or starts the process that a client talks to.
#[async_trait::async_trait]
pub trait Connector: Send + Sync + 'static {
    /// Whether clients share a process. It must not change.
    fn sharing(&self) -> Sharing;

    /// The bridge: of the one process there is, or of one that was started for this opening.
    async fn open(&self, opening: Opening) -> Result<Opened, OpenError>;
}

/// A server that is there already, shared by all.
#[async_trait::async_trait]
impl Connector for Handle {
    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    async fn open(&self, _: Opening) -> Result<Opened, OpenError> {
        Ok(Opened { handle: self.clone(), guard: None })
    }
}
