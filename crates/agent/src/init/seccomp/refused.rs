//! Calls that are refused by name: they act on the machine rather than on the sandbox, or
//! make ways around it.

use libc::{
    SYS_acct, SYS_add_key, SYS_adjtimex, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_clone,
    SYS_delete_module, SYS_fanotify_init, SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen,
    SYS_fspick, SYS_init_module, SYS_ioctl, SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl, SYS_mount,
    SYS_mount_setattr, SYS_move_mount, SYS_nfsservctl, SYS_open_by_handle_at, SYS_open_tree,
    SYS_perf_event_open, SYS_personality, SYS_pivot_root, SYS_quotactl, SYS_quotactl_fd, SYS_reboot,
    SYS_request_key, SYS_setdomainname, SYS_sethostname, SYS_setns, SYS_settimeofday, SYS_swapoff,
    SYS_swapon, SYS_syslog, SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup,
};
use seccompiler::{Error, SeccompCmpOp, SeccompRule};

use super::{Rules, all_of};

/// Refused whatever their arguments are.
const CALLS: &[i64] = &[
    // The kernel itself.
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_reboot,
    SYS_syslog,
    // File systems. A handle opens files outside of any root folder.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_open_tree,
    SYS_move_mount,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_nfsservctl,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_fanotify_init,
    // Namespaces: inside a new one root has all its powers again, over much kernel code.
    SYS_unshare,
    SYS_setns,
    SYS_sethostname,
    SYS_setdomainname,
    // Keyrings are not part of any namespace.
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // The clock is the host's.
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const MACHINE_CALLS: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const MACHINE_CALLS: &[i64] = &[];

/// Each makes a namespace.
const NAMESPACE_FLAGS: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Types into the terminal of whoever is on its other end.
const TERMINAL_INJECTION: [u64; 2] = [0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */];

/// The plain personality, `uname26`, and asking which one it is. Others switch protections off.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

pub(super) fn rules() -> Result<Rules, Error> {
    let mut rules: Rules = CALLS.iter().chain(MACHINE_CALLS).map(|call| (*call, Vec::new())).collect();
    rules.insert(
        SYS_clone,
        any_of(NAMESPACE_FLAGS.map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            (0, SeccompCmpOp::MaskedEq(flag), flag)
        }))?,
    );
    rules.insert(SYS_ioctl, any_of(TERMINAL_INJECTION.map(|request| (1, SeccompCmpOp::Eq, request)))?);
    let other_personality = PERSONALITIES.map(|personality| (0, SeccompCmpOp::Ne, personality));
    rules.insert(SYS_personality, vec![all_of(&other_personality)?]);
    Ok(rules)
}

fn any_of<const N: usize>(conditions: [(u8, SeccompCmpOp, u64); N]) -> Result<Vec<SeccompRule>, Error> {
    conditions.into_iter().map(|condition| all_of(&[condition])).collect()
}
