//! Noticing changes of the kernel's rules.
//!
//! The kernel counts them. As long as the number is the same, nobody has touched any rule,
//! ours included; asking for it takes some microseconds and starts no process.

use std::io;

use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN`.
const GET_GENERATION: u16 = 10 << 8 | 16;
/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN`.
const NEW_GENERATION: u16 = 10 << 8 | 15;
/// `NFTA_GEN_ID`.
const GENERATION_ID: u16 = 1;
const NLM_F_REQUEST: u16 = 1;

/// How often the rules of this network namespace have been changed.
pub(crate) fn generation() -> io::Result<u32> {
    let socket = Socket::new(NETLINK_NETFILTER)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // A header, and as its content no family, version 0, no resource.
    let mut request = Vec::with_capacity(20);
    request.extend(20u32.to_ne_bytes());
    request.extend(GET_GENERATION.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8 + 4]);
    socket.send(&request, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    parse(&answer).ok_or_else(|| io::Error::other("the kernel does not count changes of its rules"))
}

fn parse(answer: &[u8]) -> Option<u32> {
    if answer.get(4..6)? != NEW_GENERATION.to_ne_bytes() {
        return None;
    }
    let mut rest = answer.get(20..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes([*rest.first()?, *rest.get(1)?]));
        if rest.get(2..4)? == GENERATION_ID.to_ne_bytes() {
            return Some(u32::from_be_bytes(rest.get(4..8)?.try_into().ok()?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}
