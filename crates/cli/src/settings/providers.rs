//! Which providers are used, and why the others are not.

use std::path::Path;

use emergent_orchestrator::{Absence, AbsentProvider};
use emergent_provider_gvisor::docker_was_used;
use emergent_types::ProviderKind;

use super::environment::Environment;
use super::gvisor::{self, Gvisor};

/// Every kind of provider: used, or not and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Providers {
    /// In no order: automatic choice has one of its own.
    pub(crate) used: Vec<ProviderKind>,
    pub(crate) absent: Vec<AbsentProvider>,
}

impl Providers {
    /// Those that somebody has named, and no others.
    pub(super) fn named(named: Vec<ProviderKind>) -> Self {
        let used = ProviderKind::ALL.iter().filter(|kind| named.contains(kind)).copied().collect();
        Self::with(used, |_| Absence::LeftOut)
    }

    /// Those that this machine has something for: Docker's only where there may be one, or was.
    pub(super) fn found(environment: &Environment, gvisor: &Gvisor, data_dir: &Path) -> Self {
        let engine = gvisor::engine(environment);
        let has_docker = engine.may_be_there() || docker_was_used(data_dir);
        let mut used = vec![ProviderKind::Local];
        if has_docker || matches!(gvisor, Gvisor::Direct { .. }) {
            used.push(ProviderKind::Gvisor);
        }
        if has_docker {
            used.push(ProviderKind::Docker);
        }
        Self::with(used, |kind| {
            Absence::NotFound(match kind {
                ProviderKind::Gvisor => {
                    format!("there is no Docker at {engine}, nor runsc and root to do without one")
                }
                ProviderKind::Docker => format!("there is no Docker at {engine}"),
                ProviderKind::E2b | ProviderKind::Firecracker | ProviderKind::Local => {
                    "this version does not have it".to_owned()
                }
            })
        })
    }

    fn with(used: Vec<ProviderKind>, absence: impl Fn(ProviderKind) -> Absence) -> Self {
        let is_absent = |kind: &&ProviderKind| !used.contains(kind);
        let absent = ProviderKind::ALL.iter().filter(is_absent);
        let absent = absent.map(|kind| AbsentProvider { kind: *kind, absence: absence(*kind) }).collect();
        Self { used, absent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_used_or_absent_for_a_reason() {
        let named = Providers::named(vec![ProviderKind::Local, ProviderKind::Local]);
        assert_eq!(named.used, [ProviderKind::Local]);
        assert_eq!(named.absent.len(), ProviderKind::ALL.len() - 1);
        assert!(named.absent.iter().all(|absent| absent.absence == Absence::LeftOut));
    }

    #[test]
    fn a_docker_that_was_used_is_only_away() {
        let nowhere =
            Environment::of(&[(super::super::environment::DOCKER_HOST, "unix:///nowhere/docker.sock")]);
        let data = tempfile::tempdir().unwrap();
        let found = || Providers::found(&nowhere, &Gvisor::Docker, data.path()).used;
        assert_eq!(found(), [ProviderKind::Local]);
        std::fs::create_dir_all(data.path().join("containers/gvisor")).unwrap();
        assert_eq!(found(), [ProviderKind::Local, ProviderKind::Gvisor, ProviderKind::Docker]);
    }
}
