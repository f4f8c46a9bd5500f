//! Volumes with names on volumes of Docker's, and what is watched where nothing is limited.

use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{EngineAddress, Runtime};
use emergent_test_support::TestDocker;
use emergent_types::DiskEnforcement;

use crate::lasting_volumes::outlives_its_sandbox;

#[test]
fn a_volume_of_dockers_outlives_its_sandbox() {
    Subject::run(crate::on_volumes::subject, |subject| Box::pin(outlives_its_sandbox(subject)));
}

/// What is only watched is watched wherever a sandbox can write: what is written there counts, and what is removed
/// no longer does.
async fn everything_written_counts(subject: &Subject) {
    const FILE: u64 = 24 << 20;
    let sandbox = subject.sandbox().await;
    assert_eq!(sandbox.sandbox.disk_enforcement, DiskEnforcement::Monitored);
    let used =
        async || subject.provider.disk_use(sandbox.id()).await.expect("counts").expect("is watched").bytes;
    for folder in ["/workspace", "/home", "/root", "/opt", "/var/tmp", "/usr/local"] {
        let before = used().await;
        sandbox.sh(&format!("head -c {FILE} /dev/urandom > {folder}/big; sync")).await;
        let full = used().await;
        assert!(full >= before + FILE * 9 / 10, "{folder}: {before} and then {full}");
        sandbox.sh(&format!("rm {folder}/big; sync")).await;
        let after = used().await;
        assert!(after < before + FILE / 2, "{folder}: {full} and then {after}");
    }
}

#[test]
fn everything_written_under_gvisor_counts() {
    Subject::run(crate::on_volumes::subject, |subject| Box::pin(everything_written_counts(subject)));
}

#[test]
fn everything_written_under_dockers_own_runtime_counts() {
    let subject = async || {
        let docker = TestDocker::get();
        let address = EngineAddress::new(docker.address_by_tcp());
        crate::subject_at(address, docker, Runtime::Default)
    };
    Subject::run(subject, |subject| Box::pin(everything_written_counts(subject)));
}
