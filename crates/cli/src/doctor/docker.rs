//! Docker and gVisor: what makes workspaces stronger than the embedded ones.

use emergent_provider_gvisor::{EngineAddress, EngineReport};

use super::finding::Finding;
use crate::settings::environment::{self, Environment};

const NO_GVISOR: &str = "workspaces share this machine's kernel (isolation level container)";

/// What there is of both.
pub(super) async fn check() -> Vec<Finding> {
    let environment = Environment::of_process();
    let address = environment.text(environment::DOCKER_HOST).map(EngineAddress::new).unwrap_or_default();
    if !address.may_be_there() {
        return vec![Finding::warning(
            "docker",
            format!("nobody listens at {address}"),
            NO_GVISOR,
            "install Docker (package docker.io), or name another one in DOCKER_HOST",
        )];
    }
    match EngineReport::of(address).await {
        Err(reason) => vec![Finding::warning(
            "docker",
            reason,
            NO_GVISOR,
            "start Docker, and give this account access to its socket",
        )],
        Ok(report) => vec![restarts(&report), gvisor(&report)],
    }
}

fn restarts(report: &EngineReport) -> Finding {
    let found = format!("version {}", report.version);
    match report.keeps_containers {
        true => Finding::ok("docker", found + ", live-restore is on"),
        false => Finding::warning(
            "docker",
            found + ", live-restore is off",
            "a restart of Docker ends what runs in its workspaces; their files stay",
            "set \"live-restore\": true in /etc/docker/daemon.json and reload Docker",
        ),
    }
}

fn gvisor(report: &EngineReport) -> Finding {
    match report.has_runsc {
        true => Finding::ok("gvisor", "runsc is registered with Docker"),
        false => Finding::warning(
            "gvisor",
            "gVisor runtime not available: runsc is not registered with Docker",
            NO_GVISOR,
            "install gVisor (package runsc), run `runsc install` and restart Docker",
        ),
    }
}
