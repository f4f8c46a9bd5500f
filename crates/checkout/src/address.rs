//! Which addresses a name may lead to. What is checked is the address that is connected to, so a name that leads
//! elsewhere the next time gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On the internet.
    Public,
    /// This machine, or a network of somebody's own.
    Private,
    /// Never: metadata of clouds, and what is no host at all.
    Never,
}

/// Where clouds tell their guests who they are, beside the link-local addresses: Alibaba's, Azure's, Oracle's.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// The same: Amazon's, Google's.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The kind of place that an address is.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, _] = address.octets();
    if address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || METADATA_V4.contains(&address)
    {
        return Reach::Never;
    }
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_test = matches!((a, b, c), (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113));
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    if address.is_loopback() || address.is_private() || is_shared || is_test || is_benchmark {
        Reach::Private
    } else {
        Reach::Public
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if let Some(inner) = embedded_v4(address) {
        return reach_v4(inner);
    }
    let [first, second, ..] = address.segments();
    let is_link_local = first & 0xffc0 == 0xfe80;
    if address.is_unspecified() || address.is_multicast() || is_link_local || METADATA_V6.contains(&address) {
        return Reach::Never;
    }
    // What is on the internet begins with the bits 001, but for what is kept for documents and protocols.
    let is_global = first & 0xe000 == 0x2000;
    let is_reserved = (first == 0x2001 && (second < 0x200 || second == 0xdb8)) || first & 0xfff0 == 0x3ff0;
    if is_global && !is_reserved { Reach::Public } else { Reach::Private }
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated or tunnelled.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(of(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) > (0, 1) => Some(of(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(of(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x64, 0xff9b, 1, .., high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expect: Reach| assert_eq!(reach(text.parse().unwrap()), expect, "{text}");
        for public in ["140.82.121.4", "1.1.1.1", "2606:50c0:8000::153", "172.32.0.1", "100.128.0.1"] {
            check(public, Reach::Public);
        }
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "198.18.0.1",
            "64:ff9b:1::a00:1",
            "2001:db8::1",
            "2001::1",
            "4000::1",
            "5f00::1",
            "100::1",
        ] {
            check(private, Reach::Private);
        }
        for never in [
            "169.254.169.254",
            "169.254.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "fe80::1",
            "::",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::",
            "ff02::1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd20:ce::254",
            "64:ff9b:1::a9fe:a9fe",
            "::ffff:0:169.254.169.254",
            "::7f",
            "240.0.0.1",
            "0.1.2.3",
        ] {
            check(never, Reach::Never);
        }
    }
}
