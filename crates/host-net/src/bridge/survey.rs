//! What the rules and the network's addresses depend on: the engine's host, which may be another
//! than the server's.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::bridge::{NoResolver, Resolvers};
use crate::cidr::Cidr;
use crate::error::NetworkError;

/// What is read, in this order. The files of the kernel show the network namespace of who reads
/// them.
const ROUTES4: &str = "/proc/thread-self/net/fib_trie";
const ROUTES6: &str = "/proc/thread-self/net/ipv6_route";
const RESOLV_CONFS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// What comes before every file and after the last one.
const MARK: &str = "emergent-survey";

/// What a host's network looks like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Ranges that the host has a route to, and its own addresses.
    pub taken: Vec<Cidr>,
    resolv_confs: Vec<String>,
}

/// Output of something else than the survey's script, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the engine's host could not be looked at: the helper's output is not complete")]
pub struct UnreadableSurvey;

impl Survey {
    /// Looks at this host.
    pub fn of_this_host() -> Result<Self, NetworkError> {
        let routes4 = fs::read_to_string(ROUTES4).map_err(NetworkError::system("the host's routes"))?;
        // A host may have no IPv6, and need not have every file that names resolvers.
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Ok(Self::of_texts(&routes4, &read(ROUTES6), RESOLV_CONFS.map(read).to_vec()))
    }

    /// A script for `sh` that looks at the host it runs on; a container runs it with the network
    /// of its host. Such a container has the host's own `/etc/resolv.conf`. For hosts with
    /// systemd's resolver, `/run/systemd/resolve` of the host should be mounted in the same place,
    /// where it exists.
    pub fn script() -> String {
        let files = [ROUTES4, ROUTES6, RESOLV_CONFS[0], RESOLV_CONFS[1]].join(" ");
        format!(
            "for file in {files}; do\n  echo '{MARK} file'\n  cat \"$file\" 2>/dev/null\n  echo\ndone\n\
             echo '{MARK} end'\n"
        )
    }

    /// Reads what the script has written.
    pub fn parse(output: &str) -> Result<Self, UnreadableSurvey> {
        let (all, _) = output.rsplit_once(&format!("{MARK} end\n")).ok_or(UnreadableSurvey)?;
        let mark = format!("{MARK} file\n");
        let mut files = all.split(mark.as_str()).skip(1);
        let mut next = || files.next().ok_or(UnreadableSurvey);
        let (routes4, routes6) = (next()?, next()?);
        if routes4.trim().is_empty() {
            return Err(UnreadableSurvey);
        }
        let resolv_confs = vec![next()?.to_owned(), next()?.to_owned()];
        Ok(Self::of_texts(routes4, routes6, resolv_confs))
    }

    fn of_texts(routes4: &str, routes6: &str, resolv_confs: Vec<String>) -> Self {
        let mut taken: Vec<Cidr> = ranges4(routes4).chain(ranges6(routes6)).collect();
        taken.sort();
        taken.dedup();
        let resolv_confs = resolv_confs.iter().map(|text| text.trim().to_owned()).collect();
        Self { taken, resolv_confs }
    }

    /// The host's resolvers that containers' questions can be passed on to; `ipv6` when their
    /// network has it.
    pub fn resolvers(&self, ipv6: bool) -> Result<Resolvers, NoResolver> {
        Resolvers::choose(self.resolv_confs.iter().map(String::as_str), ipv6)
    }
}

/// The leaves of a tree: an address in one line, below it `/24 link UNICAST` for every route.
/// A default route covers everything and says nothing.
fn ranges4(text: &str) -> impl Iterator<Item = Cidr> {
    let mut address = Ipv4Addr::UNSPECIFIED;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if let Some(leaf) = line.strip_prefix("|-- ") {
            address = leaf.trim().parse().ok()?;
            return None;
        }
        let prefix = line.strip_prefix('/')?.split_whitespace().next()?.parse().ok()?;
        (prefix > 0).then(|| Cidr::new(address.into(), prefix))
    })
}

/// A line for every route: the address and the prefix in hexadecimal come first.
fn ranges6(text: &str) -> impl Iterator<Item = Cidr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = Ipv6Addr::from_bits(u128::from_str_radix(words.next()?, 16).ok()?);
        let prefix = u8::from_str_radix(words.next()?, 16).ok()?;
        (prefix > 0 && !address.is_multicast()).then(|| Cidr::new(address.into(), prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB_TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 4
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/8 2 0 2
        |-- 10.200.0.0
           /16 universe UNICAST
           /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.200.0.7
        /32 host LOCAL
     |-- 127.0.0.0
        /8 host LOCAL
";
    const IPV6_ROUTE: &str = "\
fd770000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     eth0
";

    #[test]
    fn routes_and_addresses_are_read() {
        let survey = Survey::of_texts(FIB_TRIE, IPV6_ROUTE, vec!["nameserver 10.200.0.1\n".to_owned()]);
        let taken: Vec<String> = survey.taken.iter().map(Cidr::to_string).collect();
        assert_eq!(taken, ["10.200.0.0/16", "10.200.0.0/24", "10.200.0.7/32", "127.0.0.0/8", "fd77::/64"]);
        assert_eq!(survey.resolvers(false).unwrap().v4(), Some([10, 200, 0, 1].into()));
    }

    #[test]
    fn a_scripts_output_is_read_whole_or_not_at_all() {
        let output = |files: &[&str]| -> String {
            let parts = files.iter().map(|file| format!("{MARK} file\n{file}\n"));
            parts.chain([format!("{MARK} end\n")]).collect()
        };
        let whole = output(&[FIB_TRIE, IPV6_ROUTE, "nameserver 127.0.0.53", "nameserver 10.0.0.2"]);
        let survey = Survey::parse(&whole).unwrap();
        assert_eq!(survey.taken.len(), 5);
        assert_eq!(survey.resolvers(true).unwrap().v4(), Some([10, 0, 0, 2].into()));
        // A host without IPv6 has no such file.
        assert!(Survey::parse(&output(&[FIB_TRIE, "", "nameserver 10.0.0.2", ""])).is_ok());
        for bad in ["", &whole[..whole.len() - 2], &output(&[FIB_TRIE]), &output(&["", "", "", ""])] {
            assert_eq!(Survey::parse(bad), Err(UnreadableSurvey), "{bad:?}");
        }
    }
}
