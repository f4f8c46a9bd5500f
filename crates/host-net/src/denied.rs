//! What no sandbox may reach unless the server's settings open it: everything that is not the
//! internet, by the registries of special-purpose addresses (RFC 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cidr::Cidr;

/// Ranges of IPv4 that are not the internet.
const DENIED4: [Cidr; 15] = [
    Cidr::v4(0, 0, 0, 0, 8),
    Cidr::v4(10, 0, 0, 0, 8),
    // Carriers' own, and what overlay networks such as Tailscale use.
    Cidr::v4(100, 64, 0, 0, 10),
    Cidr::v4(127, 0, 0, 0, 8),
    // Link-local, and with it the clouds' metadata services.
    Cidr::v4(169, 254, 0, 0, 16),
    Cidr::v4(172, 16, 0, 0, 12),
    // Of protocols: DS-Lite, NAT64's discovery and the like.
    Cidr::v4(192, 0, 0, 0, 24),
    // For documentation.
    Cidr::v4(192, 0, 2, 0, 24),
    // Relays of 6to4, given up.
    Cidr::v4(192, 88, 99, 0, 24),
    Cidr::v4(192, 168, 0, 0, 16),
    // For benchmarks, and what some take for private.
    Cidr::v4(198, 18, 0, 0, 15),
    // For documentation.
    Cidr::v4(198, 51, 100, 0, 24),
    Cidr::v4(203, 0, 113, 0, 24),
    // Multicast.
    Cidr::v4(224, 0, 0, 0, 4),
    // Reserved, and broadcast.
    Cidr::v4(240, 0, 0, 0, 4),
];

/// Where the internet is in IPv6. Outside of it there are loopback, mapped and translated IPv4,
/// unique local, link-local, site-local and multicast addresses, what overlay networks have taken
/// for themselves, and much that is nobody's yet.
const GLOBAL6: Cidr = Cidr::v6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// IPv4 through a translator with the well-known prefix: as far as IPv4 itself is the internet.
const NAT64: Cidr = Cidr::v6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// What is inside of it and not the internet.
const DENIED6: [Cidr; 4] = [
    // Of protocols: Teredo, benchmarks, ORCHID and the like.
    Cidr::v6(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // For documentation.
    Cidr::v6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    Cidr::v6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    // 6to4: IPv4 behind IPv6, given up.
    Cidr::v6(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// Everything in IPv6.
const ALL6: Cidr = Cidr::v6(Ipv6Addr::UNSPECIFIED, 0);

pub(crate) fn denied4() -> Vec<Cidr> {
    DENIED4.to_vec()
}

/// With the denied ranges of IPv4 as they look through NAT64.
pub(crate) fn denied6() -> Vec<Cidr> {
    let outside = ALL6.without(&GLOBAL6).into_iter().flat_map(|range| range.without(&NAT64));
    outside.chain(DENIED6).chain(DENIED4.iter().map(behind_nat64)).collect()
}

/// Whether none of a range is the internet.
pub(crate) fn is_denied(range: &Cidr) -> bool {
    let denied = if range.is_v4() { denied4() } else { denied6() };
    // A range lies in one denied range, or it is made of denied ones that lie in it.
    let mut left = vec![*range];
    for denied in denied {
        left = left.iter().flat_map(|part| part.without(&denied)).collect();
    }
    left.is_empty()
}

/// A range of IPv4 below 64:ff9b::/96.
fn behind_nat64(range: &Cidr) -> Cidr {
    let bits4 = match range.address() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.to_bits(),
    };
    let bits = (0x64_ff9b_u128 << 96) | u128::from(bits4);
    Cidr::new(Ipv6Addr::from_bits(bits).into(), 96 + range.prefix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_and_what_is_not() {
        let is_denied = |text: &str| is_denied(&text.parse::<Cidr>().unwrap());
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.255.255",
            "192.0.0.170",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::10.0.0.1",
            "::ffff:192.168.0.1",
            "::ffff:1.1.1.1",
            "::ffff:0:1.1.1.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::192.0.0.8",
            "64:ff9b::255.255.255.255",
            "64:ff9b:1::1",
            "64:ff9b:0:0:0:1::",
            "64:ff9a::1",
            "100::1",
            "200::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2002::1",
            "2002:101:101::1",
            "2002:a00:1::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "ffff::ffff",
            // Whole ranges, and ranges that are made of denied ones.
            "10.0.0.0/8",
            "192.168.7.0/24",
            "224.0.0.0/3",
            "fe80::/64",
            "fc00::/6",
        ] {
            assert!(is_denied(address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.0.3.1",
            "192.88.98.1",
            "192.167.0.1",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.1",
            "198.51.101.1",
            "203.0.114.1",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1111",
            "3ffe::1",
            "3fff:1000::1",
            "64:ff9b::1.1.1.1",
            // A part of these is the internet.
            "0.0.0.0/0",
            "0.0.0.0/1",
            "192.0.0.0/8",
            "::/0",
            "::/1",
            "64:ff9b::/96",
        ] {
            assert!(!is_denied(address), "{address}");
        }
    }
}
