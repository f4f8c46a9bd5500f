//! A range of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses, `10.0.0.0/8` or `fd00::/8`. The bits behind the prefix are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// Text that is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a range of addresses such as 10.1.0.0/16 or fd00::/8")]
pub struct ParseCidrError;

impl Cidr {
    /// The range that holds an address; bits behind the prefix are cut off. A prefix that is
    /// too long means the address alone.
    pub fn new(address: IpAddr, prefix: u8) -> Self {
        let prefix = prefix.min(width(address));
        let address = match address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & mask4(prefix)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & mask6(prefix)).into(),
        };
        Self { address, prefix }
    }

    /// A range in IPv4.
    pub(crate) const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// A range in IPv6.
    pub(crate) const fn v6(address: Ipv6Addr, prefix: u8) -> Self {
        Self { address: IpAddr::V6(address), prefix }
    }

    /// The first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits all its addresses share.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether it is in IPv4.
    pub fn is_v4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self::new(address, self.prefix) == *self
    }

    /// What is left of it without another one: nothing, itself, or the halves that are in the way of
    /// neither.
    pub(crate) fn without(&self, hole: &Self) -> Vec<Self> {
        if !self.overlaps(hole) {
            return vec![*self];
        }
        let Some(halves) = self.halves().filter(|_| self.prefix < hole.prefix) else { return Vec::new() };
        halves.iter().flat_map(|half| half.without(hole)).collect()
    }

    /// The two ranges that it consists of; one address has none.
    fn halves(&self) -> Option<[Self; 2]> {
        let prefix = self.prefix + 1;
        if prefix > width(self.address) {
            return None;
        }
        let second = match self.address {
            IpAddr::V4(v4) => IpAddr::from(Ipv4Addr::from_bits(v4.to_bits() | 1 << (32 - prefix))),
            IpAddr::V6(v6) => IpAddr::from(Ipv6Addr::from_bits(v6.to_bits() | 1 << (128 - prefix))),
        };
        Some([Self { address: self.address, prefix }, Self { address: second, prefix }])
    }

    /// Whether the two have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn mask6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    /// An address without a prefix is a range of one.
    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ParseCidrError)?;
        let prefix = match prefix {
            None => width(address),
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| ParseCidrError)?
            }
            Some(_) => return Err(ParseCidrError),
        };
        let range = Self::new(address, prefix);
        // Something like 10.1.2.3/8 is more likely a mistake than a way to write 10.0.0.0/8.
        if range.address == address && range.prefix == prefix { Ok(range) } else { Err(ParseCidrError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_range() {
        for good in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "fd00::/8", "192.168.1.7/32", "2001:db8::1/128"] {
            assert_eq!(good.parse::<Cidr>().unwrap().to_string(), good);
        }
        assert_eq!("10.1.2.3".parse::<Cidr>().unwrap().to_string(), "10.1.2.3/32");
        for bad in ["", "10.0.0.0/33", "10.1.2.3/8", "::/129", "10/8", "a/8", "10.0.0.0/", "10.0.0.0/+8", "x"]
        {
            assert!(bad.parse::<Cidr>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_left() {
        let range = |text: &str| text.parse::<Cidr>().unwrap();
        let check = |whole: &str, hole: &str, expect: &[&str]| {
            let left: Vec<String> = range(whole).without(&range(hole)).iter().map(Cidr::to_string).collect();
            assert_eq!(left, expect, "{whole} without {hole}");
        };
        check("10.0.0.0/8", "11.0.0.0/8", &["10.0.0.0/8"]);
        check("10.0.0.0/8", "10.0.0.0/8", &[]);
        check("10.0.0.0/16", "10.0.0.0/8", &[]);
        check("10.0.0.0/8", "10.64.0.0/10", &["10.0.0.0/10", "10.128.0.0/9"]);
        check("10.0.0.0/31", "10.0.0.1/32", &["10.0.0.0/32"]);
        check("::/0", "2000::/3", &["::/3", "4000::/2", "8000::/1"]);
        check("0.0.0.0/0", "::/0", &["0.0.0.0/0"]);
        check("::1/128", "::1/128", &[]);
    }

    #[test]
    fn overlap_is_mutual() {
        let range = |text: &str| text.parse::<Cidr>().unwrap();
        let check = |one: &str, other: &str, expect| {
            assert_eq!(range(one).overlaps(&range(other)), expect, "{one} {other}");
            assert_eq!(range(other).overlaps(&range(one)), expect, "{other} {one}");
        };
        check("10.0.0.0/8", "10.64.0.0/20", true);
        check("10.0.0.0/8", "11.0.0.0/8", false);
        check("0.0.0.0/0", "11.0.0.0/8", true);
        check("0.0.0.0/0", "fd00::/8", false);
        check("fd00::/8", "fdaa::/64", true);
    }
}
