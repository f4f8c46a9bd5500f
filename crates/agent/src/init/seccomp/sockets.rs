//! Kinds of sockets.
//!
//! Closed with the rest are AF_VSOCK, which leads to the host, and AF_ALG, AF_PACKET, AF_TIPC
//! and others, which lead to little-used kernel code. Of netlink, programs need the list of
//! addresses and routes; an audit socket that cannot be opened for this reason is what account
//! tools expect on a kernel without auditing.

use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, NETLINK_ROUTE, SYS_socket, SYS_socketpair};
use seccompiler::{Error, SeccompCmpOp};

use super::{Rules, all_of};

pub(super) fn rules() -> Result<Rules, Error> {
    let number = |number: libc::c_int| u64::from(number.cast_unsigned());
    let other_than = |families: &[libc::c_int]| -> Vec<_> {
        families.iter().map(|family| (0, SeccompCmpOp::Ne, number(*family))).collect()
    };
    let other_families = all_of(&other_than(&[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK]))?;
    let other_netlink =
        all_of(&[(0, SeccompCmpOp::Eq, number(AF_NETLINK)), (2, SeccompCmpOp::Ne, number(NETLINK_ROUTE))])?;
    Ok(Rules::from([
        (SYS_socket, vec![other_families, other_netlink]),
        (SYS_socketpair, vec![all_of(&other_than(&[AF_UNIX]))?]),
    ]))
}
