//! The conformance suite over the fake, as far as something without isolation can pass it.

use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider::fake::FakeProvider;
use emergent_types::{IsolationLevel, ProviderKind};

async fn subject() -> Subject {
    let provider = FakeProvider::new(ProviderKind::Local, IsolationLevel::Container);
    provider.allow_suspension();
    Subject::new(Arc::new(provider), None, ())
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, exec, files, edit, search, git, output, watch, terminal, tunnel, transfer, streams, stdio);

// Not `a_copy_is_of_one_moment`: what runs in the fake runs beside it, and nothing holds it still.
emergent_provider::conformance_checks!(snapshots, crate::subject;
    a_running_sandbox_is_copied_and_goes_on,
    a_stopped_sandbox_is_copied,
    a_restored_sandbox_is_another_one,
    every_kind_of_file_is_restored,
    a_snapshot_outlives_its_sandbox,
    a_snapshot_is_taken_once,
    a_restore_loosens_nothing,
    a_larger_disk_is_had,
    snapshots_are_listed_and_deleted,
    what_is_not_there_is_neither_copied_nor_restored,
    a_cancelled_snapshot_can_be_deleted,
    a_cancelled_restore_can_be_destroyed,
    a_deletion_and_a_restore_do_not_disturb_each_other);

// Nothing is limited by a fake, but it keeps what it is told.
emergent_provider::conformance_checks!(limits, crate::subject; limits_can_be_adjusted);
