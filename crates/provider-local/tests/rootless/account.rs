//! As whom these tests run: an account of no importance. Started as root, the process gives
//! that up for good before it does anything else.
#![expect(unsafe_code, reason = "only libc changes the account of every thread")]

use std::sync::{Arc, Once};

use emergent_provider_local::{LaunchStep, LocalProvider};

use crate::support::Subject;

/// In no `/etc/passwd`, and nobody's.
pub(crate) const ACCOUNT: u32 = 54_321;

/// Becomes that account.
pub(crate) fn take() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(|| {
        // What lies where only root may go is still found.
        crate::support::program();
        if rustix::process::geteuid().is_root() {
            // SAFETY: these calls take numbers, and a list that is empty.
            let results = unsafe {
                [
                    libc::setgroups(0, std::ptr::null()),
                    libc::setresgid(ACCOUNT, ACCOUNT, ACCOUNT),
                    libc::setresuid(ACCOUNT, ACCOUNT, ACCOUNT),
                    // As any program that this account starts.
                    libc::prctl(libc::PR_SET_DUMPABLE, 1),
                ]
            };
            assert_eq!(results, [0; 4], "{}", std::io::Error::last_os_error());
        }
    });
    assert!(!rustix::process::geteuid().is_root());
    assert!(std::fs::read("/etc/shadow").is_err(), "this account is root in disguise");
}

/// The steps of a launch, in order.
pub(crate) fn launch_steps() -> Vec<LaunchStep> {
    use LaunchStep::{Build, DiskCopy, HelperProcess, Request, Socket, Start, UserNamespace};
    vec![DiskCopy, HelperProcess, Request, Socket, UserNamespace, Build, Start]
}

/// A provider whose disks are folders: any, for this account.
pub(crate) fn provider_of_folders(subject: &Subject) -> Arc<LocalProvider> {
    Arc::clone(&subject.provider)
}
