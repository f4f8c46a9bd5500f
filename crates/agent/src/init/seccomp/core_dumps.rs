//! The limit of core dumps stays as the host has set it.
//!
//! Where a host hands dumps to a program of its own (systemd-coredump, apport), that runs outside
//! of every namespace, as the host's root, on what a guest has laid out in its memory. A limit of
//! zero does not keep the kernel from it, one of a single byte does; so a guest must not lower it.
//! Whoever tries is told that it is done: programs that keep secrets take a refusal for a danger.

use libc::{RLIMIT_CORE, SYS_prlimit64, SYS_setrlimit};
use seccompiler::{Error, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::{Rules, all_of};

pub(super) fn rules() -> Result<Rules, Error> {
    let core = u64::from(RLIMIT_CORE);
    let is_core = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, core)?;
    // Without a new limit it only asks. An address may be zero in its lower half.
    let has_new = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    Ok(Rules::from([
        (SYS_setrlimit, vec![all_of(&[(0, SeccompCmpOp::Eq, core)])?]),
        (SYS_prlimit64, vec![SeccompRule::new(vec![is_core, has_new])?]),
    ]))
}
