//! A real server that is killed at a durable step, with workspaces under gVisor, loses and leaks nothing.
//!
//! Operations come in pairs that go much the same way: one of each is tried under Docker and the other
//! without, in a long run both in both, and at every place.

use emergent_test_support::TestServerOptions;
use emergent_workspaces::Place;

use crate::killing::{Operation, kill_at_each, places_of};

async fn kill_at_work(options: &TestServerOptions, operation: Operation) {
    if std::env::var_os("EMERGENT_TEST_LONG").is_none() {
        return kill_at_each(options, operation, vec![telling_place(operation)]).await;
    }
    for operation in [operation, partner(operation)] {
        kill_at_each(options, operation, places_of(operation)).await;
    }
}

/// Where the host has changed already and the record has not.
fn telling_place(operation: Operation) -> Place {
    match operation {
        Operation::Create | Operation::Restore => Place::CreateSandboxMade,
        Operation::Refill => Place::CreateSandboxRecorded,
        Operation::Claim => Place::ClaimAgentTold,
        Operation::Stop => Place::StopSandboxStopped,
        Operation::Resume => Place::ResumeSandboxStarted,
        Operation::Destroy => Place::DestroySandboxRemoved,
        Operation::Snapshot => Place::SnapshotCopied,
        Operation::DeleteSnapshot => Place::DeletionCopyRemoved,
        Operation::Adopt => Place::AdoptBefore,
    }
}

fn partner(operation: Operation) -> Operation {
    match operation {
        Operation::Create => Operation::Restore,
        Operation::Restore => Operation::Create,
        Operation::Claim => Operation::Refill,
        Operation::Refill => Operation::Claim,
        Operation::Stop => Operation::Resume,
        Operation::Resume => Operation::Stop,
        Operation::Snapshot => Operation::DeleteSnapshot,
        Operation::DeleteSnapshot => Operation::Snapshot,
        Operation::Adopt => Operation::Destroy,
        Operation::Destroy => Operation::Adopt,
    }
}

mod under_docker {
    use emergent_test_support::TestDocker;

    use super::Operation;
    use crate::host::Host;
    use crate::killing::test_each_operation;

    async fn kill_at_work(operation: Operation) {
        let docker = TestDocker::get();
        let options = Host::options(&docker)
            .with("DOCKER_HOST", docker.address())
            .with("WORKSPACE_PROVIDERS", "gvisor");
        super::kill_at_work(&options, operation).await;
    }

    test_each_operation!(kill_at_work, create: Create, claim: Claim, resume: Resume, snapshot: Snapshot,
        destroy: Destroy);
}

mod without_docker {
    use super::Operation;
    use crate::host::Host;
    use crate::killing::test_each_operation;

    async fn kill_at_work(operation: Operation) {
        super::kill_at_work(&Host::options_without_docker(), operation).await;
    }

    test_each_operation!(kill_at_work, restore: Restore, refill: Refill, stop: Stop,
        delete_snapshot: DeleteSnapshot, adopt: Adopt);
}
