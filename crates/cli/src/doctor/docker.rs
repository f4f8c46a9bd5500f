//! Docker and gVisor: what makes workspaces stronger than the embedded ones.

use emergent_provider_gvisor::{EngineReport, RunscReport};

use super::finding::Finding;
use crate::settings::environment::Environment;
use crate::settings::gvisor::{self, Gvisor};

const NO_GVISOR: &str = "workspaces share this machine's kernel (isolation level container)";

/// What there is of both.
pub(super) async fn check(mode: Option<&Gvisor>) -> Vec<Finding> {
    let address = gvisor::engine(&Environment::of_process());
    if let Some(Gvisor::Direct { .. }) = mode {
        return vec![direct().await];
    }
    if !address.may_be_there() {
        return vec![Finding::warning(
            "docker",
            format!("nobody listens at {address}"),
            NO_GVISOR,
            "install runsc (package runsc) and start the server as root, or install Docker (package docker.io), or \
             name another one in DOCKER_HOST",
        )];
    }
    match EngineReport::of(address).await {
        Err(reason) => vec![Finding::warning(
            "docker",
            reason,
            NO_GVISOR,
            "start Docker, and give this account access to its socket",
        )],
        Ok(report) => vec![restarts(&report), of_engine(&report)],
    }
}

/// gVisor without Docker: nothing else is needed.
async fn direct() -> Finding {
    match RunscReport::of_this_host().await {
        Ok(report) => {
            let (program, version) = (report.program.display(), &report.version);
            let found = format!("{program} {version} runs workspaces itself, without Docker");
            match report.flaw {
                None => Finding::ok("gvisor", found),
                Some(flaw) => Finding::warning("gvisor", found, &flaw, "install a newer gVisor"),
            }
        }
        Err(reason) => Finding::warning(
            "gvisor",
            format!("gVisor runtime not available: {reason}"),
            NO_GVISOR,
            "install gVisor (package runsc)",
        ),
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

fn of_engine(report: &EngineReport) -> Finding {
    let Some(runsc) = &report.runsc else {
        return Finding::warning(
            "gvisor",
            "gVisor runtime not available: runsc is not registered with Docker",
            NO_GVISOR,
            "install gVisor (package runsc), run `runsc install` and restart Docker",
        );
    };
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let found = format!(
        "runsc is registered with Docker: version {}, platform {}, network {}",
        known(&runsc.version),
        known(&runsc.platform),
        known(&runsc.network)
    );
    match &report.runsc_flaw {
        None => Finding::ok("gvisor", found),
        Some(flaw) => Finding::warning(
            "gvisor",
            found,
            flaw,
            "install a newer gVisor (on Debian from the backports suite) and restart Docker",
        ),
    }
}
