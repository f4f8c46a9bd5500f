//! Whether creates are expected to work, and if not, what to do about it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::Docker;
use emergent_provider::{Health, ProviderError};
use emergent_types::RuntimeFacts;

use crate::disk::DiskKind;
use crate::engine::EngineError;
use crate::host::Host;
use crate::network::Offer;
use crate::options::Runtime;
use crate::runsc;

/// What could not be had is tried again: somebody may have seen to it.
pub(crate) const TRY_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// What was seen of the engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenEngine {
    pub(crate) cpus: u32,
    /// Where it keeps volumes.
    pub(crate) folder: PathBuf,
    pub(crate) runtimes: Vec<String>,
    /// What Docker was told of each.
    registered: HashMap<String, bollard::models::Runtime>,
    /// What is known of gVisor's.
    pub(crate) runsc: Option<RuntimeFacts>,
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
                // Or its host was started anew, and what was in its kernel is gone.
                self.internet.engine_was_away().await;
                Health::Unhealthy { reason: error.to_string() }
            }
            Ok((docker, seen)) => match self.missing_runtime(&seen) {
                Some(reason) => Health::Unhealthy { reason },
                None => match self.means(&docker).await {
                    Ok(means) => {
                        self.clear_away(&docker).await;
                        self.keep_internet(&docker, means.disk).await;
                        Health::Healthy
                    }
                    Err(error) => Health::Unhealthy { reason: self.with_flaw(error.to_string()) },
                },
            },
        }
    }

    /// Where the runtime is known to be too old, that may be why.
    fn with_flaw(&self, reason: String) -> String {
        let seen = self.probe.seen().and_then(|seen| seen.runsc);
        match seen.as_ref().filter(|_| self.options.runtime == Runtime::Runsc).and_then(runsc::flaw) {
            Some(flaw) => format!("{reason}; {flaw}"),
            None => reason,
        }
    }

    /// Looks after the network of sandboxes; one that cannot be upheld is no longer offered.
    async fn keep_internet(&self, docker: &Docker, disk: DiskKind) {
        let offer = self.internet.offer();
        let result = match offer {
            Offer::Refused { again_at, .. } if Instant::now() < again_at => {
                // No sandbox tries it before then, but those that are on it are looked after.
                if self.internet.was_offered()
                    && let Err(error) = self.look_after_internet(docker).await
                {
                    tracing::debug!(provider = %self.kind(), %error, "the containers' network is not back");
                }
                return;
            }
            Offer::Untried | Offer::Refused { .. } => self.try_internet(docker, disk).await,
            Offer::Offered => self.look_after_internet(docker).await.map_err(|reason| reason.to_string()),
        };
        if let Err(reason) = &result {
            tracing::warn!(provider = %self.kind(), reason, security = true,
                "provider {} does not offer the network internet: {reason}", self.kind());
        }
        // Sandboxes that had it are without it as long as it is gone, so it is tried again at the next look.
        let pause = if offer == Offer::Offered { Duration::ZERO } else { TRY_AGAIN_AFTER };
        self.internet.set_offer(match result {
            Ok(()) => Offer::Offered,
            Err(reason) => Offer::Refused { reason, again_at: Instant::now() + pause },
        });
    }

    async fn look_at_engine(&self, docker: &Docker) -> Result<SeenEngine, EngineError> {
        let info = docker.info().await?;
        let runtimes = info.runtimes.unwrap_or_default();
        let known = self.probe.seen().filter(|seen| seen.registered == runtimes).and_then(|seen| seen.runsc);
        let runsc = match (Runtime::Runsc.name().and_then(|name| Some((name, runtimes.get(name)?))), known) {
            (None, _) => None,
            // It is not asked again every half a minute.
            (Some(_), Some(known)) => Some(known),
            (Some((name, registered)), None) => {
                Some(runsc::look(name, registered, self.engine.address().socket().is_some()).await)
            }
        };
        let seen = SeenEngine {
            cpus: info.ncpu.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1),
            folder: info.docker_root_dir.unwrap_or_default().into(),
            runtimes: runtimes.keys().cloned().collect(),
            registered: runtimes,
            runsc,
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
