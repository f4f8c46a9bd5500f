//! The addresses of an installation's sandboxes.
//!
//! Nobody but the host ever sees them: what leaves the host carries the host's own address.
//! They only must not be addresses that the host has another use for.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use emergent_types::InstallationId;

use crate::cidr::Cidr;
use crate::denied::is_denied;

/// Bits of an IPv4 pool: 4,096 addresses.
const PREFIX4: u8 = 20;

/// The bits that all local addresses of IPv6 share that are given out.
const LOCAL6_PREFIX: u8 = 8;

/// Where IPv4 pools are looked for, in this order. The first is where the fewest other
/// networks are; the last two are for hosts on whose routes all private ranges are taken.
const PLACES4: [Cidr; 5] = [
    Cidr::v4(10, 128, 0, 0, 9),
    Cidr::v4(172, 16, 0, 0, 12),
    Cidr::v4(192, 168, 0, 0, 16),
    Cidr::v4(198, 18, 0, 0, 15),
    Cidr::v4(100, 64, 0, 0, 10),
];

/// Where addresses come from: number 1 is the host's on every link, the others are one
/// sandbox's each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool {
    base4: Ipv4Addr,
    base6: Ipv6Addr,
}

/// The addresses of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

impl Pool {
    /// A pool of this installation in which none of the `taken` ranges lies. The same one
    /// every time as long as nothing changes on the host.
    pub(crate) fn choose(installation: InstallationId, taken: &[Cidr]) -> Option<Self> {
        let seed = installation.as_uuid().as_u128();
        let free = |range: &Cidr| !taken.iter().any(|route| is_of_a_network(route) && route.overlaps(range));
        let base4 = PLACES4.iter().find_map(|place| {
            let IpAddr::V4(first) = place.address() else { return None };
            let pools = 1u32 << (PREFIX4 - place.prefix());
            let start = (seed % u128::from(pools)) as u32;
            (0..pools)
                .map(|step| (start + step) % pools)
                .map(|index| Ipv4Addr::from_bits(first.to_bits() + (index << (32 - PREFIX4))))
                .find(|base| free(&Cidr::new((*base).into(), PREFIX4)))
        })?;
        // Forty random bits, as unique local addresses want them.
        let base6 = (0..16).find_map(|step: u128| {
            let base = Ipv6Addr::from_bits((0xfd << 120) | (((seed + step) & 0xff_ffff_ffff) << 80));
            free(&Cidr::new(base.into(), 64)).then_some(base)
        })?;
        Some(Self { base4, base6 })
    }

    /// The pool that a link's address was taken from, by an earlier server.
    pub(crate) fn of_gateway(gateway: Pair) -> Self {
        Self {
            base4: Ipv4Addr::from_bits(gateway.v4.to_bits() & !((1 << (32 - PREFIX4)) - 1)),
            base6: Ipv6Addr::from_bits(gateway.v6.to_bits() & !u128::from(u64::MAX)),
        }
    }

    pub(crate) fn range4(&self) -> Cidr {
        Cidr::new(self.base4.into(), PREFIX4)
    }

    pub(crate) fn range6(&self) -> Cidr {
        Cidr::new(self.base6.into(), 64)
    }

    /// The host's addresses on every link.
    pub(crate) fn gateway(&self) -> Pair {
        self.pair(1)
    }

    /// The lowest number that is free.
    pub(crate) fn free_number(&self, used: &BTreeSet<u32>) -> Option<u32> {
        (2..(1 << (32 - PREFIX4)) - 1).find(|number| !used.contains(number))
    }

    /// A sandbox's addresses.
    pub(crate) fn pair(&self, number: u32) -> Pair {
        Pair {
            v4: Ipv4Addr::from_bits(self.base4.to_bits() + number),
            v6: Ipv6Addr::from_bits(self.base6.to_bits() + u128::from(number)),
        }
    }

    /// Which sandbox's address it is.
    pub(crate) fn number_of(&self, address: Ipv4Addr) -> Option<u32> {
        let number = address.to_bits().checked_sub(self.base4.to_bits())?;
        (number < 1 << (32 - PREFIX4)).then_some(number)
    }
}

/// Whether a route tells that somebody uses these addresses. A way to the internet tells nothing,
/// be it a default route or a half of one; nor does one to all local addresses of IPv6, as tunnels
/// have it: of those there are so many that nobody has the ones that are taken here.
fn is_of_a_network(route: &Cidr) -> bool {
    is_denied(route) && (route.is_v4() || route.prefix() > LOCAL6_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_avoids_what_the_host_uses() {
        let installation = InstallationId::generate();
        let ranges = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Cidr>>();
        let first = Pool::choose(installation, &ranges(&["0.0.0.0/0", "::/0"])).unwrap();
        assert!(Cidr::v4(10, 128, 0, 0, 9).overlaps(&first.range4()));
        assert_eq!(Pool::choose(installation, &ranges(&["10.0.0.0/24"])), Some(first));

        let second = Pool::choose(installation, &[first.range4(), first.range6()]).unwrap();
        assert!(!second.range4().overlaps(&first.range4()));
        assert!(!second.range6().overlaps(&first.range6()));

        let vpn = Pool::choose(installation, &ranges(&["10.0.0.0/8", "172.16.0.0/12"])).unwrap();
        assert!(Cidr::v4(192, 168, 0, 0, 16).overlaps(&vpn.range4()));
        let tunnel =
            ranges(&["0.0.0.0/1", "128.0.0.0/1", "::/3", "2000::/4", "3000::/4", "fc00::/7", "8000::/1"]);
        assert_eq!(Pool::choose(installation, &tunnel), Some(first));
        let everything =
            ranges(&["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "100.64.0.0/10"]);
        assert_eq!(Pool::choose(installation, &everything), None);
    }

    #[test]
    fn numbers_lead_to_addresses_and_back() {
        let pool = Pool::choose(InstallationId::generate(), &[]).unwrap();
        assert_eq!(Pool::of_gateway(pool.gateway()), pool);
        assert_eq!(pool.free_number(&BTreeSet::from([2, 3, 5])), Some(4));
        assert_eq!(pool.free_number(&(0..4096).collect()), None);
        assert_eq!(pool.number_of(pool.pair(4000).v4), Some(4000));
        assert_eq!(pool.number_of(Ipv4Addr::new(1, 1, 1, 1)), None);
        assert!(pool.range4().contains(pool.pair(4094).v4.into()));
        assert!(pool.range6().contains(pool.pair(4094).v6.into()));
    }
}
