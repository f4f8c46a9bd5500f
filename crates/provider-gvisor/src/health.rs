//! Whether creates are expected to work, and if not, what to do about it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::Docker;
use emergent_provider::{Health, ProviderError};

use crate::disk::DiskKind;
use crate::engine::EngineError;
use crate::host::Host;
use crate::network::Offer;
use crate::options::Runtime;

/// What could not be had is tried again: somebody may have seen to it.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// What was seen of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenEngine {
    pub(crate) cpus: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) runtimes: Vec<String>,
}

/// What the last look at the engine told.
#[derive(Default)]
pub(crate) struct Probe {
    seen: Mutex<Option<SeenEngine>>,
}

impl Probe {
    pub(crate) fn seen(&self) -> Option<SeenEngine> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Host {
    pub(crate) async fn health(&self) -> Health {
        let checked = async {
            let docker = self.engine.docker().await?;
            self.look_at_engine(&docker).await.map(|seen| (docker, seen))
        };
        match checked.await {
            Err(error) => {
                // Perhaps another one answers there next time.
                self.engine.forget().await;
                self.trial.forget().await;
                Health::Unhealthy { reason: error.to_string() }
            }
            Ok((docker, seen)) => match self.missing_runtime(&seen) {
                Some(reason) => Health::Unhealthy { reason },
                None => match self.means(&docker).await {
                    Ok(means) => {
                        self.keep_internet(&docker, means.disk).await;
                        Health::Healthy
                    }
                    Err(error) => Health::Unhealthy { reason: error.to_string() },
                },
            },
        }
    }

    /// Looks after the network of sandboxes; one that cannot be upheld is no longer offered.
    async fn keep_internet(&self, docker: &Docker, disk: DiskKind) {
        let result = match self.internet.offer() {
            Offer::Refused { at, .. } if at.elapsed() < TRY_AGAIN_AFTER => return,
            Offer::Untried | Offer::Refused { .. } => self.try_internet(docker, disk).await,
            Offer::Offered => self.look_after_internet(docker).await.map_err(|reason| reason.to_string()),
        };
        if let Err(reason) = &result {
            tracing::warn!(provider = %self.kind(), reason, security = true,
                "provider {} does not offer the network internet: {reason}", self.kind());
        }
        self.internet.set_offer(match result {
            Ok(()) => Offer::Offered,
            Err(reason) => Offer::Refused { reason, at: Instant::now() },
        });
    }

    async fn look_at_engine(&self, docker: &Docker) -> Result<SeenEngine, EngineError> {
        let info = docker.info().await?;
        let seen = SeenEngine {
            cpus: info.ncpu.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1),
            memory_bytes: info.mem_total.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
            runtimes: info.runtimes.unwrap_or_default().into_keys().collect(),
        };
        *self.probe.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen.clone());
        Ok(seen)
    }

    fn missing_runtime(&self, seen: &SeenEngine) -> Option<String> {
        let runtime = self.options.runtime.name()?;
        (!seen.runtimes.iter().any(|known| known == runtime)).then(|| {
            format!(
                "gVisor runtime not available: {runtime:?} is not registered with Docker at {}; install gVisor \
                 and run `runsc install`, then restart Docker",
                self.engine.address()
            )
        })
    }

    /// Refuses where the runtime is not there: nothing is ever run by another one instead.
    pub(crate) async fn check_runtime(&self, docker: &Docker) -> Result<(), ProviderError> {
        let seen = match self.probe.seen() {
            Some(seen) => seen,
            None => self.look_at_engine(docker).await.map_err(|error| self.unavailable(error))?,
        };
        match self.missing_runtime(&seen) {
            Some(reason) => Err(self.unavailable(reason)),
            None => Ok(()),
        }
    }

    /// Processors of the engine's host.
    pub(crate) fn engine_cpus(&self) -> u32 {
        self.probe.seen().map_or(1, |seen| seen.cpus)
    }

    /// What the user should know of every sandbox of this provider.
    pub(crate) fn standing_warnings(&self) -> Vec<String> {
        match self.options.runtime {
            Runtime::Runsc => Vec::new(),
            Runtime::Default => vec![
                "isolation level container is the weakest: the sandbox shares the host's kernel, and a flaw \
                 in that kernel may let it out"
                    .to_owned(),
            ],
        }
    }
}
