//! What an engine says of itself, for people who want to know why something is not to be had.

use emergent_types::RuntimeFacts;

use crate::engine::{Engine, EngineAddress};
use crate::options::Runtime;
use crate::runsc;

/// An engine that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineReport {
    /// Its version.
    pub version: String,
    /// What is known of gVisor's runtime, where it can run containers under it.
    pub runsc: Option<RuntimeFacts>,
    /// What is wrong with that one, and what breaks for it.
    pub runsc_flaw: Option<String>,
    /// Whether containers go on while it is restarted.
    pub keeps_containers: bool,
}

impl EngineReport {
    /// Asks the engine at an address; says why not where there is none.
    pub async fn of(address: EngineAddress) -> Result<Self, String> {
        let is_here = address.socket().is_some();
        let asked = async {
            let docker = Engine::new(address).docker().await?;
            Ok::<_, crate::engine::EngineError>(docker.info().await?)
        };
        let info = asked.await.map_err(|error| error.to_string())?;
        let runtimes = info.runtimes.unwrap_or_default();
        let registered = Runtime::Runsc.name().and_then(|name| Some((name, runtimes.get(name)?)));
        let runsc = match registered {
            Some((name, registered)) => Some(runsc::look(name, registered, is_here).await),
            None => None,
        };
        Ok(Self {
            version: info.server_version.unwrap_or_default(),
            runsc_flaw: runsc.as_ref().and_then(runsc::flaw),
            runsc,
            keeps_containers: info.live_restore_enabled == Some(true),
        })
    }
}
