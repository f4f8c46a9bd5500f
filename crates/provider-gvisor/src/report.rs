//! What an engine says of itself, for people who want to know why something is not to be had.

use crate::engine::{Engine, EngineAddress};
use crate::options::Runtime;

/// An engine that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineReport {
    /// Its version.
    pub version: String,
    /// Whether it can run containers under gVisor.
    pub has_runsc: bool,
    /// Whether containers go on while it is restarted.
    pub keeps_containers: bool,
}

impl EngineReport {
    /// Asks the engine at an address; says why not where there is none.
    pub async fn of(address: EngineAddress) -> Result<Self, String> {
        let asked = async {
            let docker = Engine::new(address).docker().await?;
            Ok::<_, crate::engine::EngineError>(docker.info().await?)
        };
        let info = asked.await.map_err(|error| error.to_string())?;
        let runtimes = info.runtimes.unwrap_or_default();
        Ok(Self {
            version: info.server_version.unwrap_or_default(),
            has_runsc: Runtime::Runsc.name().is_some_and(|name| runtimes.contains_key(name)),
            keeps_containers: info.live_restore_enabled == Some(true),
        })
    }
}
