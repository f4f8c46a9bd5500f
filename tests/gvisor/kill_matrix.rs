//! A real server that is killed at a durable step, with workspaces under gVisor, loses and leaks nothing.

use emergent_workspaces::Place;

use crate::killing::{Operation, kill_at_each, places_of};

/// Where the host has changed already and the record has not; every place in a long run.
fn places(operation: Operation) -> Vec<Place> {
    if std::env::var_os("EMERGENT_TEST_LONG").is_some() {
        return places_of(operation);
    }
    vec![match operation {
        Operation::Create | Operation::Restore => Place::CreateSandboxMade,
        Operation::Refill => Place::CreateSandboxRecorded,
        Operation::Claim => Place::ClaimAgentTold,
        Operation::Stop => Place::StopSandboxStopped,
        Operation::Resume => Place::ResumeSandboxStarted,
        Operation::Destroy => Place::DestroySandboxRemoved,
        Operation::Snapshot => Place::SnapshotCopied,
        Operation::DeleteSnapshot => Place::DeletionCopyRemoved,
        Operation::Adopt => Place::AdoptBefore,
    }]
}

mod under_docker {
    use emergent_test_support::TestDocker;

    use super::{Operation, kill_at_each, places};
    use crate::host::Host;
    use crate::killing::test_each_operation;

    async fn kill_at_work(operation: Operation) {
        let docker = TestDocker::get();
        let options = Host::options(&docker).with("DOCKER_HOST", docker.address());
        kill_at_each(&options, operation, places(operation)).await;
    }

    test_each_operation!(kill_at_work);
}

mod without_docker {
    use emergent_test_support::TestServerOptions;

    use super::{Operation, kill_at_each, places};
    use crate::killing::test_each_operation;

    async fn kill_at_work(operation: Operation) {
        let options = TestServerOptions::default().with("WORKSPACE_GVISOR_MODE", "auto");
        kill_at_each(&options, operation, places(operation)).await;
    }

    test_each_operation!(kill_at_work);
}
