//! Whom questions for names are passed on to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::resolver::parse_resolv_conf;

/// The resolvers that stand behind the gateway's port 53, one in each family. There is at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolvers {
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
}

/// Why containers could not be given names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoResolver {
    /// A program on the host passes questions on, and to whom is not to be seen.
    #[error(
        "the host's resolver listens on its loopback only, where no container reaches it, and \
         /run/systemd/resolve/resolv.conf names no other; let it listen on another address of the host as \
         well, and name that in /etc/resolv.conf"
    )]
    LoopbackOnly,
    /// Packets to it would need to know by which link.
    #[error("the host's resolvers have link-local addresses only; name another one in /etc/resolv.conf")]
    LinkLocalOnly,
    /// The containers' network has no IPv6.
    #[error(
        "the host's resolvers are reached over IPv6 only, which the containers' network does not have; name \
         one with an IPv4 address in /etc/resolv.conf"
    )]
    Ipv6Only,
}

impl Resolvers {
    /// The first of each family that a packet from a container can be sent on to; `ipv6` when the
    /// network has it.
    pub fn new(addresses: &[IpAddr], ipv6: bool) -> Result<Self, NoResolver> {
        let (mut found, mut skipped) = (Self { v4: None, v6: None }, NoResolver::LoopbackOnly);
        for address in addresses {
            match address.to_canonical() {
                here if here.is_loopback() || here.is_unspecified() => {}
                IpAddr::V6(address) if address.is_unicast_link_local() => skipped = NoResolver::LinkLocalOnly,
                IpAddr::V6(_) if !ipv6 => skipped = NoResolver::Ipv6Only,
                IpAddr::V6(address) => found.v6 = found.v6.or(Some(address)),
                IpAddr::V4(address) => found.v4 = found.v4.or(Some(address)),
            }
        }
        if found.v4.is_none() && found.v6.is_none() { Err(skipped) } else { Ok(found) }
    }

    /// Those of the first text that names one that can be used. Each is the content of a file as
    /// `resolv.conf(5)` describes it.
    pub fn choose<'a>(texts: impl IntoIterator<Item = &'a str>, ipv6: bool) -> Result<Self, NoResolver> {
        let mut answer = Err(NoResolver::LoopbackOnly);
        for text in texts {
            let named: Vec<IpAddr> = parse_resolv_conf(text).iter().map(SocketAddr::ip).collect();
            let found = Self::new(&named, ipv6);
            if found.is_ok() {
                return found;
            }
            // The last file is the one that was asked because the others did not do; but one that
            // is missing says less than one that is not.
            if found != Err(NoResolver::LoopbackOnly) {
                answer = found;
            }
        }
        answer
    }

    /// The one in IPv4.
    pub fn v4(&self) -> Option<Ipv4Addr> {
        self.v4
    }

    /// The one in IPv6.
    pub fn v6(&self) -> Option<Ipv6Addr> {
        self.v6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_can_be_used() {
        let check = |texts: &[&str], ipv6, expect: Result<(Option<&str>, Option<&str>), NoResolver>| {
            let found = Resolvers::choose(texts.iter().copied(), ipv6);
            let expect = expect.map(|(v4, v6)| Resolvers {
                v4: v4.map(|text| text.parse().unwrap()),
                v6: v6.map(|text| text.parse().unwrap()),
            });
            assert_eq!(found, expect, "{texts:?}");
        };
        let systemd = "nameserver 127.0.0.53\noptions edns0\n";
        check(&["nameserver 10.0.0.2\nnameserver 10.0.0.3\n"], true, Ok((Some("10.0.0.2"), None)));
        check(
            &["nameserver fd77::53\nnameserver 10.0.0.2\n"],
            true,
            Ok((Some("10.0.0.2"), Some("fd77::53"))),
        );
        check(&["nameserver fd77::53\nnameserver 10.0.0.2\n"], false, Ok((Some("10.0.0.2"), None)));
        // A cloud's resolver has the address of its metadata service.
        check(&["nameserver 169.254.169.254\n"], false, Ok((Some("169.254.169.254"), None)));
        check(&["nameserver 127.0.0.1\nnameserver 192.0.2.1\n"], false, Ok((Some("192.0.2.1"), None)));
        check(&[systemd, "nameserver 192.168.1.1\n"], false, Ok((Some("192.168.1.1"), None)));
        check(&["nameserver 9.9.9.9\n", "nameserver 192.168.1.1\n"], false, Ok((Some("9.9.9.9"), None)));
        for nobody in [&[systemd][..], &[systemd, ""], &["nameserver ::1\n"], &["nameserver 0.0.0.0"], &[]] {
            check(nobody, true, Err(NoResolver::LoopbackOnly));
        }
        check(&["nameserver 2001:db8::53\n"], false, Err(NoResolver::Ipv6Only));
        check(&["nameserver fe80::1%lo\n"], true, Err(NoResolver::LinkLocalOnly));
        check(&["nameserver fe80::1%lo\n", ""], true, Err(NoResolver::LinkLocalOnly));
    }
}
