//! The bridge's rules, as one transaction for `nft`.
//!
//! Built from ids, numbers and addresses only; no text of a request reaches it.

use std::fmt::Write;
use std::net::IpAddr;

use emergent_types::InstallationId;

use crate::bridge::{Resolvers, Subnets};
use crate::cidr::Cidr;
use crate::names::{ANY_LINK, bridge_link_name, bridge_table_name};
use crate::rules::{MAX_CONNECTIONS, REFUSE, ranges};

/// The families of the two tables.
pub(super) const FAMILIES: [&str; 2] = ["inet", "bridge"];

/// What the rules depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeRules {
    /// Whose bridge it is. Part of every name.
    pub installation: InstallationId,
    /// The addresses of its network.
    pub subnets: Subnets,
    /// Ranges that containers may reach although they are denied. The host's own addresses and
    /// other sandboxes stay closed.
    pub allow: Vec<Cidr>,
    /// Ranges that they may not reach beside the usual ones: other networks of the engine, which
    /// keeps them apart by rules that come behind our accept.
    pub deny: Vec<Cidr>,
    /// Whom questions for names are passed on to.
    pub resolvers: Resolvers,
}

/// How the kernel is told to keep the bridge's ports apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separation {
    /// Every frame from one port of the bridge to another is dropped. Needs a kernel whose rules
    /// can ask which bridge a port belongs to (`CONFIG_NFT_BRIDGE_META`).
    ByBridge,
    /// For kernels that cannot, those of Docker Desktop among them: the bridge shows packets that
    /// it passes on to the rules for routed ones (`br_netfilter`), where its name is known; and
    /// frames between containers that carry an address of the network are dropped without that.
    ByAddress,
}

impl BridgeRules {
    /// The name that the bridge must have.
    pub fn link(&self) -> String {
        bridge_link_name(self.installation)
    }

    /// Where containers ask for names.
    pub fn nameservers(&self) -> Vec<IpAddr> {
        self.names().into_iter().map(|(_, gateway, _)| gateway).collect()
    }

    /// Family, address of the bridge, address of the resolver behind it.
    fn names(&self) -> Vec<(&'static str, IpAddr, IpAddr)> {
        let v4 = self.resolvers.v4().map(|resolver| ("ip", self.subnets.gateway4().into(), resolver.into()));
        let v6 = self.subnets.gateway6().zip(self.resolvers.v6());
        v4.into_iter().chain(v6.map(|(gateway, resolver)| ("ip6", gateway.into(), resolver.into()))).collect()
    }

    /// Replaces both tables in one step: there is no moment without rules.
    pub fn script(&self, separation: Separation) -> String {
        let table = bridge_table_name(self.installation);
        let mut text = String::new();
        for family in FAMILIES {
            let _ = writeln!(text, "add table {family} {table}\ndelete table {family} {table}");
        }
        let _ = writeln!(text, "table inet {table} {{");
        self.packets(&mut text);
        let _ = writeln!(text, "}}\ntable bridge {table} {{");
        self.frames(&mut text, separation);
        text.push_str("}\n");
        text
    }

    /// What containers send to elsewhere and get from there.
    fn packets(&self, text: &mut String) {
        let link = self.link();
        ranges(text, &self.allow, &self.deny);
        text.push_str("  set connections4 { type ipv4_addr; size 65535; flags dynamic; }\n");
        text.push_str("  set connections6 { type ipv6_addr; size 65535; flags dynamic; }\n");
        text.push_str(REFUSE);
        self.sources(text);
        self.questions(text);
        let _ = write!(
            text,
            "  chain input {{
    type filter hook input priority -10; policy accept;
    iifname \"{link}\" goto arriving
  }}
  chain arriving {{
    jump neighbours
    jump asking
    goto refuse
  }}
  chain forward {{
    type filter hook forward priority -10; policy accept;
    oifname \"{link}\" jump received
    iifname \"{link}\" goto leaving
  }}
  chain output {{
    type filter hook output priority -10; policy accept;
    oifname \"{link}\" ct state new goto refuse
  }}
  chain delivered {{
    type filter hook postrouting priority -10; policy accept;
    oifname \"{link}\" ct state new drop
  }}
  chain received {{
    iifname \"{link}\" goto refuse
    ct state established,related accept
    drop
  }}
  chain leaving {{
    oifname \"{ANY_LINK}*\" goto refuse
    jump asking
    ip daddr @allow4 goto open
    ip6 daddr @allow6 goto open
    ip daddr @deny4 goto refuse
    ip6 daddr @deny6 goto refuse
    goto open
  }}
  chain open {{
    ct state invalid drop
    ct state new add @connections4 {{ ip saddr ct count over {MAX_CONNECTIONS} }} goto refuse
    ct state new add @connections6 {{ ip6 saddr ct count over {MAX_CONNECTIONS} }} goto refuse
    accept
  }}
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
"
        );
        for (family, range) in self.ranges() {
            let _ = writeln!(text, "    oifname != \"{link}\" {family} saddr {range} masquerade");
        }
        text.push_str("  }\n");
    }

    fn ranges(&self) -> Vec<(&'static str, Cidr)> {
        let v6 = self.subnets.range6().map(|range| ("ip6", range));
        [("ip", self.subnets.range4())].into_iter().chain(v6).collect()
    }

    /// What is looked at before anybody has changed where it goes: whether the source is one of
    /// the network's, and whether it is sent to the host itself. Asking neighbours for their
    /// hardware addresses is part of IPv6, and done with addresses of the link as well.
    fn sources(&self, text: &mut String) {
        let link = self.link();
        let (range4, gateway4) = (self.subnets.range4(), self.subnets.gateway4());
        let _ = write!(
            text,
            "  chain prerouting {{
    type filter hook prerouting priority -300; policy accept;
    iifname \"{link}\" jump sent
  }}
  chain sent {{
    jump neighbours
    ip saddr {gateway4} drop
    ip saddr != {range4} drop
"
        );
        match (self.subnets.range6(), self.subnets.gateway6()) {
            (Some(range6), Some(gateway6)) => {
                let _ = write!(text, "    ip6 saddr {gateway6} drop\n    ip6 saddr != {range6} drop\n");
            }
            _ => text.push_str("    meta nfproto ipv6 drop\n"),
        }
        for (family, gateway, _) in self.names() {
            let _ =
                writeln!(text, "    {family} daddr {gateway} meta l4proto {{ tcp, udp }} th dport 53 accept");
        }
        text.push_str("    fib daddr type != unicast goto refuse\n  }\n  chain neighbours {\n");
        if let Some(range6) = self.subnets.range6() {
            let _ = writeln!(
                text,
                "    ip6 saddr {{ ::, fe80::/10, {range6} }} ip6 hoplimit 255 \
                 icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept"
            );
        }
        text.push_str("  }\n");
    }

    /// Questions for names: sent on before the engine's own translations, and let through
    /// wherever the resolver is, when it was us who sent them there.
    fn questions(&self, text: &mut String) {
        let link = self.link();
        text.push_str("  chain names {\n    type nat hook prerouting priority -110; policy accept;\n");
        for (family, gateway, resolver) in self.names() {
            let _ = writeln!(
                text,
                "    iifname \"{link}\" {family} daddr {gateway} meta l4proto {{ tcp, udp }} th dport 53 \
                 dnat {family} to {resolver}"
            );
        }
        text.push_str("  }\n  chain asking {\n");
        for (family, gateway, resolver) in self.names() {
            let _ = writeln!(
                text,
                "    ct status dnat ct original {family} daddr {gateway} {family} daddr {resolver} \
                 meta l4proto {{ tcp, udp }} th dport 53 goto open"
            );
        }
        text.push_str("  }\n");
    }

    /// What goes from one port of the bridge to another, whether or not it is a packet.
    fn frames(&self, text: &mut String, separation: Separation) {
        let (link, gateway4) = (self.link(), self.subnets.gateway4());
        // Nobody but the host says where the gateway is.
        let _ = write!(
            text,
            "  chain prerouting {{
    type filter hook prerouting priority -300; policy accept;
    meta iifkind \"veth\" arp saddr ip {gateway4} drop
  }}
  chain forward {{
    type filter hook forward priority -300; policy accept;
"
        );
        match separation {
            Separation::ByBridge => {
                let _ = write!(
                    text,
                    "    meta ibrname \"{link}\" drop\n    meta obrname \"{link}\" drop\n  }}\n"
                );
            }
            // Only between containers: a bridge for virtual machines may carry anybody's addresses.
            Separation::ByAddress => {
                text.push_str("    meta iifkind \"veth\" meta oifkind \"veth\" jump across\n  }\n");
                text.push_str("  chain across {\n");
                for (family, range) in self.ranges() {
                    let _ =
                        write!(text, "    {family} saddr {range} drop\n    {family} daddr {range} drop\n");
                }
                let range4 = self.subnets.range4();
                let _ =
                    write!(text, "    arp saddr ip {range4} drop\n    arp daddr ip {range4} drop\n  }}\n");
            }
        }
    }
}
