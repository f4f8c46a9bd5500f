//! The addresses of the bridge's network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use emergent_types::InstallationId;

use crate::cidr::Cidr;
use crate::pool::Pool;

/// The ranges of a bridge's network and the bridge's own addresses in them. IPv6 only where the
/// network has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnets {
    v4: (Cidr, Ipv4Addr),
    v6: Option<(Cidr, Ipv6Addr)>,
}

/// Why a network's addresses do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitSubnets {
    /// The rules are written for exactly one range in IPv4 and at most one in IPv6.
    #[error("the network must have one range of IPv4 and at most one of IPv6")]
    Number,
    /// The bridge's address is somewhere else.
    #[error("the gateway {gateway} is not in the network's range {range}")]
    Gateway {
        /// The range.
        range: Cidr,
        /// The address.
        gateway: IpAddr,
    },
}

impl Subnets {
    /// The addresses of a network that is there, as its engine lists them: every range with its
    /// gateway.
    pub fn new(listed: &[(Cidr, IpAddr)]) -> Result<Self, UnfitSubnets> {
        let (mut v4, mut v6) = (None, None);
        for &(range, gateway) in listed {
            if !range.contains(gateway) {
                return Err(UnfitSubnets::Gateway { range, gateway });
            }
            let earlier = match gateway {
                IpAddr::V4(gateway) => v4.replace((range, gateway)).is_some(),
                IpAddr::V6(gateway) => v6.replace((range, gateway)).is_some(),
            };
            if earlier {
                return Err(UnfitSubnets::Number);
            }
        }
        Ok(Self { v4: v4.ok_or(UnfitSubnets::Number)?, v6 })
    }

    /// Addresses for a network that is to be made, of which none is `taken`: neither by routes
    /// and addresses of the host ([`Survey`](crate::bridge::Survey)), nor by other networks of the
    /// engine, nor by ranges that the settings open. The same ones every time as long as nothing
    /// changes, and not those that a [`HostNetwork`](crate::HostNetwork) of the installation would take.
    pub fn choose(installation: InstallationId, taken: &[Cidr]) -> Option<Self> {
        let of_links = Pool::choose(installation, taken)?;
        let taken = [taken, &[of_links.range4(), of_links.range6()]].concat();
        let pool = Pool::choose(installation, &taken)?;
        let gateway = pool.gateway();
        Some(Self { v4: (pool.range4(), gateway.v4), v6: Some((pool.range6(), gateway.v6)) })
    }

    /// The same without IPv6.
    #[must_use]
    pub fn without_ipv6(self) -> Self {
        Self { v6: None, ..self }
    }

    /// The range in IPv4.
    pub fn range4(&self) -> Cidr {
        self.v4.0
    }

    /// The bridge's address in IPv4.
    pub fn gateway4(&self) -> Ipv4Addr {
        self.v4.1
    }

    /// The range in IPv6, where the network has it.
    pub fn range6(&self) -> Option<Cidr> {
        self.v6.map(|(range, _)| range)
    }

    /// The bridge's address in IPv6, where the network has it.
    pub fn gateway6(&self) -> Option<Ipv6Addr> {
        self.v6.map(|(_, gateway)| gateway)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_choice_avoids_what_is_taken_and_stays_the_same() {
        let installation = InstallationId::generate();
        let nothing = [range("0.0.0.0/0"), range("::/0")];
        let first = Subnets::choose(installation, &nothing).unwrap();
        assert_eq!(Subnets::choose(installation, &nothing), Some(first));
        assert!(first.range4().contains(first.gateway4().into()));
        assert!(first.range6().unwrap().contains(first.gateway6().unwrap().into()));
        // The sandboxes' own links have other addresses.
        let links = Pool::choose(installation, &nothing).unwrap();
        assert!(!links.range4().overlaps(&first.range4()));
        assert!(!links.range6().overlaps(&first.range6().unwrap()));

        let taken = [first.range4(), first.range6().unwrap(), range("10.0.0.0/9")];
        let second = Subnets::choose(installation, &taken).unwrap();
        for range in taken {
            assert!(!range.overlaps(&second.range4()) && !range.overlaps(&second.range6().unwrap()));
        }
        let everything =
            ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "100.64.0.0/10"].map(range);
        assert_eq!(Subnets::choose(installation, &everything), None);
    }

    #[test]
    fn a_choice_never_overlaps_anything_taken() {
        let busy: Vec<Cidr> = (128..=254u8)
            .map(|b| Cidr::v4(10, b, 0, 0, 16))
            .chain((16..32u8).map(|b| Cidr::v4(172, b, 0, 0, 16)))
            .collect();
        for _ in 0..20 {
            let chosen = Subnets::choose(InstallationId::generate(), &busy).unwrap();
            assert!(!busy.iter().any(|range| range.overlaps(&chosen.range4())), "{chosen:?}");
        }
    }

    #[test]
    fn what_an_engine_lists_is_checked() {
        let check = |listed: &[(&str, &str)], expect: Result<bool, UnfitSubnets>| {
            let listed: Vec<_> =
                listed.iter().map(|(cidr, gateway)| (range(cidr), gateway.parse().unwrap())).collect();
            assert_eq!(Subnets::new(&listed).map(|subnets| subnets.range6().is_some()), expect, "{listed:?}");
        };
        check(&[("10.9.0.0/16", "10.9.0.1")], Ok(false));
        check(&[("fd09::/64", "fd09::1"), ("10.9.0.0/16", "10.9.0.1")], Ok(true));
        check(&[], Err(UnfitSubnets::Number));
        check(&[("fd09::/64", "fd09::1")], Err(UnfitSubnets::Number));
        check(&[("10.9.0.0/16", "10.9.0.1"), ("10.8.0.0/16", "10.8.0.1")], Err(UnfitSubnets::Number));
        let elsewhere = UnfitSubnets::Gateway { range: range("10.9.0.0/16"), gateway: [10, 8, 0, 1].into() };
        check(&[("10.9.0.0/16", "10.8.0.1")], Err(elsewhere));
    }
}
