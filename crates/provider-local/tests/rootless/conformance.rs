//! The suite that every provider passes, without root and with the real agent.

use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider_local::{AgentSource, HelperCommand, LocalProvider, Options};
use emergent_types::InstallationId;

use crate::{account, support};

pub(crate) async fn subject() -> Subject {
    account::take();
    let data_dir = tempfile::tempdir().unwrap();
    let provider = LocalProvider::new(Options {
        data_dir: data_dir.path().to_owned(),
        installation: InstallationId::generate(),
        agent: AgentSource::Bytes(emergent_agent_bundle::bytes().into()),
        helper: HelperCommand { program: support::program(), args: Vec::new() },
    });
    let mut subject = Subject::new(Arc::new(provider), Some("/workspace"), data_dir);
    subject.one_account = true;
    subject
}

emergent_provider::conformance_tests!(crate::conformance::subject; lifecycle, streams, usage);
emergent_provider::conformance_tests_together!(crate::conformance::subject; exec, files, edit, search, git, output,
    watch, terminal, tunnel, transfer, stdio);
// Of the limits, those that hold without control groups and a disk of one's own.
emergent_provider::conformance_checks!(limits, crate::conformance::subject;
    memory_on_tmpfs_counts, a_fork_bomb_stays_inside, limits_can_be_adjusted);
// All but the one for which a file of root's must be laid out; its like is in `secrets`.
emergent_provider::conformance_checks!(isolation, crate::conformance::subject;
    the_host_is_not_visible,
    namespaces_are_its_own,
    privileges_are_few,
    nothing_is_reachable_when_isolated,
    sandboxes_do_not_see_each_other);
