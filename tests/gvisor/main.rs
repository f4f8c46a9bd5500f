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

/// Sandboxes whose agent may become another account. `setgroups` and `setgid` ask for SETGID,
/// `setuid` for SETUID, and gVisor's kernel asks as Linux does; nothing else that the tools do
/// needs a capability.
async fn subject_that_switches_accounts() -> Subject {
    subject_with(&["SETUID", "SETGID"]).await
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
mod extra { emergent_provider::conformance_tests!(crate::subject; limits, isolation); 
#[test]
fn timings() {
    use std::time::Instant;
    emergent_provider::conformance::Subject::run(crate::subject, |subject| Box::pin(async move {
        fn show(name: &str, mut v: Vec<f64>) { v.sort_by(f64::total_cmp); eprintln!("{name}: min {:.2} p50 {:.2} p95 {:.2} ms", v[0], v[v.len()/2], v[v.len()*95/100]); }
        let ms = |t: Instant| t.elapsed().as_secs_f64()*1e3;
        let (mut create, mut greet, mut first, mut connect, mut destroy) = (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..8 {
            let spec = subject.spec();
            let t = Instant::now(); subject.provider.create(&spec).await.unwrap(); create.push(ms(t));
            let t = Instant::now(); let client = subject.client(&spec); client.greet().await.unwrap(); greet.push(ms(t));
            let t = Instant::now(); client.exec(&emergent_agent_client::CommandSpec::shell("true"), Default::default()).await.unwrap(); first.push(ms(t));
            let t = Instant::now(); drop(subject.provider.connect(spec.id).await.unwrap()); connect.push(ms(t));
            let t = Instant::now(); subject.provider.destroy(spec.id).await.unwrap(); destroy.push(ms(t));
        }
        show("create", create); show("connect+greet", greet); show("first bash true", first); show("provider.connect", connect); show("destroy", destroy);
        let s = subject.sandbox().await;
        let (mut stat, mut list, mut exec, mut read, mut argv) = (vec![], vec![], vec![], vec![], vec![]);
        s.sh("head -c 2048 /dev/zero > f").await;
        for _ in 0..200 {
            let t = Instant::now(); s.client.list_processes().await.unwrap(); list.push(ms(t));
            let t = Instant::now(); s.client.stat(".").await.unwrap(); stat.push(ms(t));
            let t = Instant::now(); let mut r = s.client.read_file("f", 0, 0).await.unwrap(); while r.next().await.unwrap().is_some() {} read.push(ms(t));
        }
        for _ in 0..50 {
            let t = Instant::now(); s.client.exec(&emergent_agent_client::CommandSpec::shell("true"), Default::default()).await.unwrap(); exec.push(ms(t));
            let c = emergent_agent_client::CommandSpec { program: emergent_agent_client::Program::Argv(vec!["/bin/true".into()]), ..emergent_agent_client::CommandSpec::shell("") };
            let t = Instant::now(); s.client.exec(&c, Default::default()).await.unwrap(); argv.push(ms(t));
        }
        show("list_processes (round trip)", list); show("stat", stat); show("read 2KB", read); show("bash -c true", exec); show("argv /bin/true", argv);
        let t = Instant::now(); let o = s.run("head -c 400000000 /dev/zero").await; let e = ms(t); eprintln!("400 MB output drained in {e:.0} ms {}", o.stdout.total_bytes);
        let t = Instant::now(); s.client.write_file("big", bytes::Bytes::from(vec![1u8; 64<<20])).await.unwrap(); eprintln!("64 MiB write {:.0} ms", ms(t));
        eprintln!("inside: {}", s.sh("t() { local s=${EPOCHREALTIME/./}; for i in {1..50}; do \"$@\"; done; local e=${EPOCHREALTIME/./}; echo \"$* $(( (e-s)/50 ))us\"; }; t /bin/true; t bash -c true; cat /proc/*/status | grep -E 'Name|VmRSS'").await);
    }));
}
}
