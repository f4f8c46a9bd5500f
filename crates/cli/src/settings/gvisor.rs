//! How workspaces get under gVisor: by Docker, or by `runsc` itself.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use emergent_provider_gvisor::{EngineAddress, GvisorWay, find_runsc, way_in_use};
use serde::Deserialize;

use super::environment::{self, Environment};

/// What somebody wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GvisorMode {
    /// As the workspaces are that there are already; else Docker where there may be one, else `runsc` itself
    /// where it is installed and this is root.
    #[default]
    Auto,
    /// Docker alone.
    Docker,
    /// `runsc` alone.
    Direct,
}

impl FromStr for GvisorMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "docker" => Ok(Self::Docker),
            "direct" => Ok(Self::Direct),
            _ => Err(format!("{text:?} is none of auto, docker, direct")),
        }
    }
}

/// What it comes to on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gvisor {
    /// Containers of Docker's.
    Docker,
    /// This program, started by the server.
    Direct { runsc: PathBuf },
}

impl Gvisor {
    pub(super) fn of(mode: GvisorMode, data_dir: &Path, environment: &Environment) -> Self {
        let direct = |runsc: Option<PathBuf>| Self::Direct {
            // The provider's health says that it is missing.
            runsc: runsc.unwrap_or_else(|| "/usr/bin/runsc".into()),
        };
        match mode {
            GvisorMode::Docker => Self::Docker,
            GvisorMode::Direct => direct(find_runsc()),
            GvisorMode::Auto => match (way_in_use(data_dir), find_runsc()) {
                // What is there cannot go on the other way.
                (Some(GvisorWay::Docker), _) => Self::Docker,
                (Some(GvisorWay::Direct), runsc) => direct(runsc),
                (None, _) if engine(environment).may_be_there() => Self::Docker,
                (None, Some(runsc)) if rustix::process::geteuid().is_root() => direct(Some(runsc)),
                (None, _) => Self::Docker,
            },
        }
    }
}

/// Which Docker.
pub(crate) fn engine(environment: &Environment) -> EngineAddress {
    environment.text(environment::DOCKER_HOST).map(EngineAddress::new).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_docker_comes_first_unless_somebody_says_otherwise() {
        let there = Environment::of(&[(environment::DOCKER_HOST, "tcp://10.1.2.3:2375")]);
        let data = tempfile::tempdir().unwrap();
        let of = |mode, environment: &Environment| Gvisor::of(mode, data.path(), environment);
        assert_eq!(of(GvisorMode::Auto, &there), Gvisor::Docker);
        assert_eq!(of(GvisorMode::Docker, &there), Gvisor::Docker);
        assert!(matches!(of(GvisorMode::Direct, &there), Gvisor::Direct { .. }));
        let nowhere = Environment::of(&[(environment::DOCKER_HOST, "unix:///nowhere/docker.sock")]);
        let can = rustix::process::geteuid().is_root() && find_runsc().is_some();
        assert_eq!(matches!(of(GvisorMode::Auto, &nowhere), Gvisor::Direct { .. }), can);
        std::fs::create_dir_all(data.path().join("direct/sandboxes/one")).unwrap();
        assert!(matches!(of(GvisorMode::Auto, &there), Gvisor::Direct { .. }), "what is there goes on");
        std::fs::create_dir_all(data.path().join("containers/gvisor/two")).unwrap();
        assert_eq!(of(GvisorMode::Auto, &nowhere), Gvisor::Docker, "Docker may only be away for a moment");
        assert!("Direct".parse::<GvisorMode>().is_err());
    }
}
