//! The rules, as one transaction for `nft`.
//!
//! Built from ids, numbers and addresses only; no text of a request reaches it.

use std::fmt::Write;

use emergent_types::InstallationId;
use serde_json::Value;

use crate::cidr::Cidr;
use crate::command;
use crate::denied::{denied4, denied6};
use crate::error::NetworkError;
use crate::forwarding::Uplinks;
use crate::names::{ANY_LINK, link_prefix, table_name};
use crate::pool::Pool;

/// Connections one sandbox may have open through the host at once. All sandboxes and the host
/// share one table of connections in the kernel, with room for some 65,000 on a small machine.
pub(crate) const MAX_CONNECTIONS: u32 = 8192;

/// Says no at once, so that nobody waits for an answer.
pub(crate) const REFUSE: &str = "  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
";

/// What the rules depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) installation: InstallationId,
    pub(crate) pool: Pool,
    pub(crate) allow: Vec<Cidr>,
    /// Links that forward for our sandboxes only.
    pub(crate) guarded: Uplinks,
}

impl Rules {
    /// Replaces the whole table in one step: there is no moment without rules.
    ///
    /// Programs of the host begin nothing with a sandbox: `output` says so to them at once, and
    /// `delivered` holds back what somebody's translation sends there after all. Refusals are answers
    /// and pass.
    pub(crate) fn script(&self) -> String {
        let table = table_name(self.installation);
        let links = format!("\"{}*\"", link_prefix(self.installation));
        let refuse = "goto refuse";
        let mut text = format!("add table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n");
        ranges(&mut text, &self.allow, &[]);
        for (name, links) in [("uplinks4", &self.guarded.v4), ("uplinks6", &self.guarded.v6)] {
            let elements: Vec<String> = links.iter().map(|link| format!("\"{link}\"")).collect();
            set(&mut text, name, "type ifname;", &elements);
        }
        let (range4, range6) = (self.pool.range4(), self.pool.range6());
        let _ = write!(
            text,
            "  set connections {{ type ifname; size 65535; flags dynamic; }}
{REFUSE}  chain prerouting {{
    type filter hook prerouting priority -300; policy accept;
    iifname {links} jump sent
  }}
  chain sent {{
    fib saddr . iif oif missing drop
    fib daddr type != unicast {refuse}
  }}
  chain input {{
    type filter hook input priority -10; policy accept;
    iifname {links} {refuse}
  }}
  chain forward {{
    type filter hook forward priority -10; policy accept;
    oifname {links} jump received
    iifname {links} goto leaving
    oifname \"{ANY_LINK}*\" accept
    meta nfproto ipv4 iifname @uplinks4 drop
    meta nfproto ipv6 iifname @uplinks6 drop
  }}
  chain output {{
    type filter hook output priority -10; policy accept;
    oifname {links} ct state new {refuse}
  }}
  chain delivered {{
    type filter hook postrouting priority -10; policy accept;
    oifname {links} ct state new drop
  }}
  chain received {{
    iifname {links} {refuse}
    ct state established,related accept
    drop
  }}
  chain leaving {{
    ip daddr @allow4 goto open
    ip6 daddr @allow6 goto open
    ip daddr @deny4 {refuse}
    ip6 daddr @deny6 {refuse}
    goto open
  }}
  chain open {{
    ct state invalid drop
    ct state new add @connections {{ iifname ct count over {MAX_CONNECTIONS} }} {refuse}
    accept
  }}
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
    oifname != {links} ip saddr {range4} masquerade
    oifname != {links} ip6 saddr {range6} masquerade
  }}
}}
"
        );
        text
    }

    /// Whether the kernel would take the rules.
    pub(crate) async fn check(&self) -> Result<(), NetworkError> {
        command::run("nft", &["-c", "-f", "-"], &self.script()).await.map(drop)
    }

    /// Puts the rules in place, and says what they look like then.
    pub(crate) async fn apply(&self) -> Result<Listing, NetworkError> {
        replace(&["inet"], &table_name(self.installation), &self.script()).await?;
        Listing::of(self.installation).await?.ok_or_else(|| NetworkError::Refused {
            program: "nft".to_owned(),
            reason: "the table was removed at once".to_owned(),
        })
    }
}

/// Runs a script that replaces a table of one name in some families, so that no packet gets through
/// in between.
///
/// To the kernel, a table that is deleted and made again in one step is two: a packet that is under
/// way at that moment may pass the new one before it counts and the old one when it does not count
/// any more. So a copy of the new one is there meanwhile.
pub(crate) async fn replace(families: &[&str], table: &str, script: &str) -> Result<(), NetworkError> {
    let mut is_there = false;
    for family in families {
        is_there |= Listing::of_table(family, table).await?.is_some();
    }
    if !is_there {
        return command::run("nft", &["-f", "-"], script).await.map(drop);
    }
    let copy = copy_name(table);
    command::run("nft", &["-f", "-"], &script.replace(table, &copy)).await?;
    let replaced = command::run("nft", &["-f", "-"], script).await.map(drop);
    let removed = delete(families, &copy).await;
    replaced.and(removed)
}

/// What a table is called as long as it stands in for the one of this name.
pub(crate) fn copy_name(table: &str) -> String {
    format!("{table}_copy")
}

/// Removes tables of one name, as far as there are any.
pub(crate) async fn delete(families: &[&str], table: &str) -> Result<(), NetworkError> {
    let mut script = String::new();
    for family in families {
        // Adding it first makes its removal succeed in any case.
        let _ = writeln!(script, "add table {family} {table}\ndelete table {family} {table}");
    }
    command::run("nft", &["-f", "-"], &script).await.map(drop)
}

/// The sets of ranges that are opened and of those that are denied: by default, and more.
pub(crate) fn ranges(text: &mut String, allow: &[Cidr], deny_more: &[Cidr]) {
    let split = |ranges: &[Cidr]| ranges.iter().partition::<Vec<Cidr>, _>(|range| range.is_v4());
    let ((allow4, allow6), (more4, more6)) = (split(allow), split(deny_more));
    for (name, kind, ranges) in [
        ("allow4", "ipv4_addr", allow4),
        ("allow6", "ipv6_addr", allow6),
        ("deny4", "ipv4_addr", [denied4(), more4].concat()),
        ("deny6", "ipv6_addr", [denied6(), more6].concat()),
    ] {
        let elements: Vec<String> = ranges.iter().map(Cidr::to_string).collect();
        set(text, name, &format!("type {kind}; flags interval; auto-merge;"), &elements);
    }
}

fn set(text: &mut String, name: &str, kind: &str, elements: &[String]) {
    let _ = match elements {
        [] => writeln!(text, "  set {name} {{ {kind} }}"),
        elements => writeln!(text, "  set {name} {{ {kind} elements = {{ {} }} }}", elements.join(", ")),
    };
}

/// A table as `nft` lists it, without what changes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing(Vec<Value>);

impl Listing {
    /// `None` when there is no such table.
    pub(crate) async fn of(installation: InstallationId) -> Result<Option<Self>, NetworkError> {
        Self::of_table("inet", &table_name(installation)).await
    }

    /// The same for any table.
    pub(crate) async fn of_table(family: &str, table: &str) -> Result<Option<Self>, NetworkError> {
        match command::run("nft", &["-j", "list", "table", family, table], "").await {
            Ok(json) => Ok(Self::parse(&json)),
            Err(NetworkError::Refused { reason, .. }) if reason.contains("No such file or directory") => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn parse(json: &str) -> Option<Self> {
        let mut listed: Value = serde_json::from_str(json).ok()?;
        let Value::Array(mut entries) = listed.get_mut("nftables")?.take() else { return None };
        entries.retain(|entry| entry.get("metainfo").is_none());
        for entry in &mut entries {
            for part in entry.as_object_mut().into_iter().flat_map(|entry| entry.values_mut()) {
                let Some(part) = part.as_object_mut() else { continue };
                part.remove("handle");
                // Whoever sends fills them.
                let name = part.get("name").and_then(Value::as_str).unwrap_or_default();
                if name.starts_with("connections") {
                    part.remove("elem");
                }
            }
        }
        Some(Self(entries))
    }

    /// The links that an earlier server made forward for sandboxes only.
    pub(crate) fn guarded(&self) -> Uplinks {
        let names = |set: &str| {
            self.0
                .iter()
                .filter_map(|entry| entry.get("set"))
                .filter(|entry| entry.get("name").is_some_and(|name| name == set))
                .filter_map(|entry| entry.get("elem")?.as_array())
                .flatten()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect()
        };
        Uplinks { v4: names("uplinks4"), v6: names("uplinks6") }
    }
}

/// Removes the table, if there is one, and a copy that somebody was interrupted with.
pub(crate) async fn remove(installation: InstallationId) -> Result<(), NetworkError> {
    let table = table_name(installation);
    delete(&["inet"], &table).await?;
    delete(&["inet"], &copy_name(&table)).await
}
