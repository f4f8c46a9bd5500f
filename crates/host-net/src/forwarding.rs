//! Making the host pass packets on, and no more of them than necessary.
//!
//! IPv4 asks the link that a packet arrives on, so only two kinds of links are switched on:
//! the sandboxes' and those that answers arrive on. IPv6 does the same since Linux 6.17
//! (`force_forwarding`); before, there is one switch for the whole host. A link that this
//! crate has switched on is guarded: what arrives there goes to sandboxes or nowhere, so that
//! a host that was no router has not become one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Links by which sandboxes reach the internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Uplinks {
    pub(crate) v4: BTreeSet<String>,
    pub(crate) v6: BTreeSet<String>,
}

/// A setting of the kernel's.
pub(crate) fn setting(family: &str, link: &str, name: &str) -> PathBuf {
    ["/proc/sys/net", family, "conf", link, name].iter().collect()
}

pub(crate) fn read(family: &str, link: &str, name: &str) -> Option<String> {
    fs::read_to_string(setting(family, link, name)).ok().map(|text| text.trim().to_owned())
}

pub(crate) fn write(family: &str, link: &str, name: &str, value: &str) -> io::Result<()> {
    // A host with a read-only /proc/sys may have the right value already.
    if read(family, link, name).as_deref() == Some(value) {
        return Ok(());
    }
    let path = setting(family, link, name);
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{} cannot be set: {error}", path.display())))
}

/// Whether the host has IPv6 at all.
pub(crate) fn has_ipv6() -> bool {
    read("ipv6", "all", "disable_ipv6").as_deref() == Some("0")
}

/// Whether IPv6 can be forwarded for single links.
fn forwards_ipv6_by_link() -> bool {
    setting("ipv6", "all", "force_forwarding").exists()
}

/// Whether the host passes on everything anyway, by somebody else's decision.
pub(crate) fn is_router(family: &str) -> bool {
    read(family, "all", "forwarding").as_deref() == Some("1")
}

impl Uplinks {
    /// Those that are to be switched on, or were by us: they are guarded. None where the host
    /// is a router by somebody else's decision.
    pub(crate) fn to_guard(&self, guarded_before: &Self) -> Self {
        let off = |family, name: &'static str, links: &BTreeSet<String>, before: &BTreeSet<String>| {
            if is_router(family) {
                return BTreeSet::new();
            }
            let was_off = links.iter().filter(|link| read(family, link, name).as_deref() == Some("0"));
            let still_there = before.iter().filter(|link| setting(family, link, name).exists());
            was_off.chain(still_there).cloned().collect()
        };
        Self {
            v4: off("ipv4", "forwarding", &self.v4, &guarded_before.v4),
            // Without a switch of its own a link cannot be told from the host.
            v6: if forwards_ipv6_by_link() {
                off("ipv6", "force_forwarding", &self.v6, &guarded_before.v6)
            } else {
                BTreeSet::new()
            },
        }
    }

    /// Switches them on. The guard must be in place.
    pub(crate) fn switch_on(&self) -> io::Result<()> {
        if !is_router("ipv4") {
            for link in &self.v4 {
                write("ipv4", link, "forwarding", "1")?;
            }
        }
        if self.v6.is_empty() || is_router("ipv6") {
            return Ok(());
        }
        if forwards_ipv6_by_link() {
            return self.v6.iter().try_for_each(|link| write("ipv6", link, "force_forwarding", "1"));
        }
        keep_router_advertisements()?;
        write("ipv6", "all", "forwarding", "1")
    }

    /// Switches off what was guarded.
    pub(crate) fn switch_off(&self) {
        for (family, name, links) in
            [("ipv4", "forwarding", &self.v4), ("ipv6", "force_forwarding", &self.v6)]
        {
            if is_router(family) {
                continue;
            }
            for link in links {
                // A link that is gone has no setting.
                let _ = write(family, link, name, "0");
            }
        }
    }
}

/// A router ignores routers' advertisements, and a host may have its own address and route
/// from one. 2 means: listen to them all the same.
fn keep_router_advertisements() -> io::Result<()> {
    for entry in fs::read_dir("/proc/sys/net/ipv6/conf")?.flatten() {
        let Ok(link) = entry.file_name().into_string() else { continue };
        if link != "all" && read("ipv6", &link, "accept_ra").as_deref() == Some("1") {
            write("ipv6", &link, "accept_ra", "2")?;
        }
    }
    Ok(())
}

/// Prepares the host's end of a pair, while it is down: it forwards, listens to nobody's
/// advertisements and has no address but those it is given.
pub(crate) fn prepare_link(link: &str, ipv6: bool) -> io::Result<()> {
    write("ipv4", link, "forwarding", "1")?;
    if ipv6 {
        write("ipv6", link, "accept_ra", "0")?;
        write("ipv6", link, "addr_gen_mode", "1")?;
        if forwards_ipv6_by_link() {
            write("ipv6", link, "force_forwarding", "1")?;
        }
    }
    Ok(())
}
