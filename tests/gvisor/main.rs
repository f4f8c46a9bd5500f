//! The agent under real gVisor: the proof that the provider interface fits more than the
//! embedded sandbox.
//!
//! ```text
//!  conformance suite ─► RunscProvider ─► docker (argument lists) ─► private dockerd
//!                            │                                          │
//!                            └── stream ── docker exec … relay ──► runsc container
//!                                                                   read-only root, no
//!                                                                   capability, no network
//! ```
//!
//! Each test has a daemon of its own ([`daemon`]), which takes everything it started with it
//! whichever way the test ends. There is no registry and no downloaded image: the root is made
//! from the host's own programs ([`root_image`]).

mod daemon;
mod docker;
mod posture;
mod programs;
mod provider;
mod relay;
mod remains;
mod root_image;

use std::sync::Arc;

use emergent_provider::conformance::Subject;

use daemon::DockerDaemon;
use provider::RunscProvider;

/// The workspace folder of every sandbox.
const WORKSPACE: &str = "/workspace";

/// Sandboxes without any capability.
async fn subject() -> Subject {
    subject_with(&[]).await
}

/// Sandboxes whose agent may run a command as another account. gVisor's kernel asks as Linux
/// does: SETGID for the groups, SETUID for the account, and KILL to end what then belongs to
/// somebody else. Nothing else that the tools do needs a capability.
async fn subject_that_switches_accounts() -> Subject {
    subject_with(&["SETUID", "SETGID", "KILL"]).await
}

async fn subject_with(capabilities: &'static [&'static str]) -> Subject {
    let daemon = DockerDaemon::start().await;
    root_image::import(&daemon).await;
    let provider = RunscProvider::new(&daemon, capabilities);
    Subject::new(Arc::new(provider), Some(WORKSPACE), daemon)
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, files, streams);

emergent_provider::conformance_checks!(exec, crate::subject;
    output_and_exit_code,
    environment_and_workdir,
    arguments_are_data,
    a_timeout_kills_the_whole_tree,
    a_dropped_call_kills_the_whole_tree,
    output_is_bounded_with_head_and_tail,
    invalid_utf8_is_an_answer,
    a_background_child_does_not_delay_the_answer,
    background_processes_outlive_the_connection,
    background_processes_are_signalled_with_their_children,
    bad_requests_are_refused_and_run_nothing,
    many_commands_at_once);

/// The checks that cannot pass without a capability.
mod with_capabilities {
    emergent_provider::conformance_checks!(exec, crate::subject_that_switches_accounts;
        an_account_of_the_sandbox);
}

/// The part `exec` is spelt out above, so a check that is added to it must be added here.
#[test]
fn every_check_of_commands_is_run() {
    let checks = include_str!("../../crates/provider/src/conformance/exec.rs");
    let here = include_str!("main.rs");
    for line in checks.lines() {
        let Some(check) = line.strip_prefix("pub async fn ") else { continue };
        let name = check.split('(').next().unwrap_or(check);
        assert!(here.contains(name), "{name} is not run under gVisor");
    }
}
