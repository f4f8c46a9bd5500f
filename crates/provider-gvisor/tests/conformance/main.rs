//! The provider over real runsc under a real Docker.

mod memory;
mod posture;

use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{EngineAddress, GvisorProvider, Options, Runtime};
use emergent_test_support::{TEST_IMAGE, TestDocker};
use emergent_types::InstallationId;

/// Sandboxes under gVisor.
async fn subject() -> Subject {
    subject_with(TestDocker::get(), Runtime::Runsc)
}

/// Sandboxes of that Docker's under that runtime.
fn subject_with(docker: TestDocker, runtime: Runtime) -> Subject {
    let data = docker.data_folder();
    let provider = GvisorProvider::new(Options {
        data_dir: data.path().to_owned(),
        installation: InstallationId::generate(),
        agent: emergent_agent_bundle::bytes().into(),
        engine: EngineAddress::new(docker.address()),
        runtime,
        default_image: TEST_IMAGE.to_owned(),
        egress_allow: Vec::new(),
    });
    Subject::new(Arc::new(provider), Some("/workspace"), (data, docker))
}

/// Sandboxes of Docker's own runtime: the same provider under another name.
mod dockers_own {
    pub(crate) async fn subject() -> super::Subject {
        super::subject_with(super::TestDocker::get(), super::Runtime::Default)
    }

    emergent_provider::conformance_tests!(crate::dockers_own::subject; lifecycle);
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, exec, files, edit, search, git, output, watch,
    terminal, tunnel, transfer, streams, isolation);

// Not `a_fork_bomb_stays_inside`: its processes are bounded, but gVisor is so slow with that many of them that
// the call which made them does not end in time.
emergent_provider::conformance_checks!(limits, crate::subject;
    memory_beyond_the_limit_kills_the_process_only,
    an_oom_kill_is_told_of_the_call_that_it_hit,
    memory_on_tmpfs_counts,
    a_full_disk_is_enospc_everywhere,
    inodes_run_out_too,
    a_full_disk_leaves_the_old_content,
    a_full_disk_is_no_space_for_git_and_edit_too,
    cpu_time_is_throttled);
