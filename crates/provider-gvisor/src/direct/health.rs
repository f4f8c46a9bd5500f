//! Whether creates are expected to work, and if not, what to do about it.

use emergent_provider::Health;

use super::host::Host;
use super::runsc::facts;
use crate::disk::layered;
use crate::runsc::flaw;

impl Host {
    pub(super) async fn health(&self) -> Health {
        if let Some(reason) = self.obstacle() {
            self.trial.forget().await;
            return Health::Unhealthy { reason };
        }
        self.settle().await;
        match self.try_out().await {
            Ok(()) => {
                self.keep_internet().await;
                Health::Healthy
            }
            Err(error) => Health::Unhealthy { reason: self.with_flaw(error.to_string()) },
        }
    }

    /// Where the runtime is known to be too old, that may be why.
    fn with_flaw(&self, reason: String) -> String {
        match flaw(&facts(self.trial.version())) {
            Some(flaw) => format!("{reason}; {flaw}"),
            None => reason,
        }
    }

    /// What can be seen to be missing.
    pub(super) fn obstacle(&self) -> Option<String> {
        if !self.runsc.program().is_file() {
            let program = self.runsc.program().display();
            return Some(format!("gVisor runtime not available: {program} is not installed (package runsc)"));
        }
        layered::obstacle(true).map(|reason| format!("without Docker, gVisor needs more: {reason}"))
    }
}
