//! As whom these tests run: root.

use std::sync::Arc;

use emergent_provider_local::{LaunchStep, LocalProvider, Withheld};

use crate::support::Subject;

/// Makes sure of it.
pub(crate) fn take() {
    assert!(rustix::process::geteuid().is_root(), "these tests need root");
}

/// The steps of a launch, in order.
pub(crate) fn launch_steps() -> Vec<LaunchStep> {
    // These sandboxes are not connected; those that are have a suite of their own.
    LaunchStep::ALL.iter().copied().filter(|step| *step != LaunchStep::Network).collect()
}

/// A provider whose disks are folders.
pub(crate) fn provider_of_folders(subject: &Subject) -> Arc<LocalProvider> {
    let withheld = Withheld { disk_images: true, ..Withheld::default() };
    Arc::new(LocalProvider::withholding(subject.options(&[]), withheld))
}
