//! The connection to Docker: where it is, and which version of its interface it speaks.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use tokio::sync::Mutex;

/// Where Docker listens unless something else is said.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// The longest call but for those that move an image, which are bounded by what they move.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(120);

/// Where a Docker engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineAddress(String);

impl EngineAddress {
    /// `unix:///path`, `tcp://host:port` (with TLS where `DOCKER_TLS_VERIFY` is set, as Docker's
    /// own client does; certificates from `DOCKER_CERT_PATH`), or `https://host:port`.
    pub fn new(host: impl Into<String>) -> Self {
        Self(host.into())
    }

    /// Whether somebody may listen there: on this host that can be seen.
    pub fn may_be_there(&self) -> bool {
        self.socket().is_none_or(|path| std::path::Path::new(path).exists())
    }

    /// Whether it is a socket of this host's, and where.
    pub fn socket(&self) -> Option<&str> {
        self.0.strip_prefix("unix://")
    }
}

/// The socket where Docker listens by default.
impl Default for EngineAddress {
    fn default() -> Self {
        Self(DEFAULT_HOST.to_owned())
    }
}

impl std::fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A Docker that may not be there yet, or no longer.
pub(crate) struct Engine {
    address: EngineAddress,
    negotiated: Mutex<Option<Docker>>,
}

impl Engine {
    pub(crate) fn new(address: EngineAddress) -> Self {
        Self { address, negotiated: Mutex::new(None) }
    }

    pub(crate) fn address(&self) -> &EngineAddress {
        &self.address
    }

    /// A client that speaks a version both sides know. Asked for once; a Docker that was not
    /// there is asked again.
    pub(crate) async fn docker(&self) -> Result<Docker, EngineError> {
        let mut negotiated = self.negotiated.lock().await;
        if let Some(docker) = &*negotiated {
            return Ok(docker.clone());
        }
        let unreachable = |error| EngineError::Unreachable { address: self.address.0.clone(), error };
        let docker =
            Docker::connect_with_host(&self.address.0).map_err(unreachable)?.with_timeout(CALL_LIMIT);
        let docker = docker.negotiate_version().await.map_err(unreachable)?;
        Ok(negotiated.insert(docker).clone())
    }

    /// Asks for the version again at the next call: the engine may have been replaced.
    pub(crate) async fn forget(&self) {
        self.negotiated.lock().await.take();
    }
}

/// Why Docker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// There is nobody, or not one we can talk to.
    #[error("Docker is not reachable at {address}: {}", innermost(error))]
    Unreachable { address: String, error: Error },
    /// It answered that it would not.
    #[error("{}", innermost(.0))]
    Refused(#[from] Error),
}

impl EngineError {
    pub(crate) fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// The status of its answer, where there was one.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Unreachable { .. } => None,
            Self::Refused(Error::DockerResponseServerError { status_code, .. }) => Some(*status_code),
            Self::Refused(_) => None,
        }
    }
}

/// What is not there is as good as removed.
pub(crate) trait MissingIsFine {
    /// Success where the thing asked for does not exist (or is being removed already).
    fn missing_is_fine(self) -> Result<(), EngineError>;
}

impl MissingIsFine for Result<(), Error> {
    fn missing_is_fine(self) -> Result<(), EngineError> {
        match self.map_err(EngineError::from) {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

/// Docker's own words, or those of whoever failed first: hyper wraps what people need to read.
fn innermost(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.clone();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
