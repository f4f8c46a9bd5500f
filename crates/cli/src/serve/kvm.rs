//! What it means that a host has no KVM: said once, at the start.

use std::fs::{File, OpenOptions};
use std::io;

const DEVICE: &str = "/dev/kvm";

/// Looks for KVM, and says what its absence means.
pub(super) fn look() {
    if let Some(told) = told(OpenOptions::new().read(true).write(true).open(DEVICE)) {
        tracing::info!("{told}");
    }
}

fn told(opened: io::Result<File>) -> Option<String> {
    let error = opened.err()?;
    Some(format!(
        "KVM is not available here ({DEVICE}: {error}): microVMs of Firecracker, which need it, are unavailable; \
         gVisor, where it is installed, works in a mode that does without it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: GVIS-14
    #[test]
    fn the_absence_of_kvm_is_told_with_what_it_means() {
        let told_of = told(Err(io::ErrorKind::NotFound.into())).unwrap();
        assert!(told_of.contains("Firecracker") && told_of.contains("unavailable"), "{told_of}");
        assert!(told_of.contains("gVisor") && told_of.contains("does without it"), "{told_of}");
        assert_eq!(told(File::open("/dev/null")), None);
    }
}
