//! Other firewalls on the host.
//!
//! A packet must be let through by every table. Where Docker runs, the policy of `FORWARD` is
//! to drop, and an accept in our own table does not help; one in `DOCKER-USER` does, and
//! Docker leaves that chain to others. Where there is no such chain but `FORWARD` drops (ufw,
//! hand-made rules), the accept goes to its head. What our own table denies stays denied: it
//! comes earlier and a drop is final.

use emergent_types::InstallationId;
use serde_json::Value;

use crate::command;
use crate::error::NetworkError;
use crate::names::{
    bridge_link_name, bridge_rule_comment, bridge_table_name, link_prefix, rule_comment, table_name,
};

/// Whose packets are to be let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The links, as `iptables` names them.
    links: String,
    /// By which the rules for them are known.
    comment: String,
    /// Where their own rules are, which are nobody's obstacle.
    table: String,
}

impl Passage {
    /// Of an installation's sandboxes, each on a link of its own.
    pub(crate) fn of_links(installation: InstallationId) -> Self {
        Self {
            links: format!("{}+", link_prefix(installation)),
            comment: rule_comment(installation),
            table: table_name(installation),
        }
    }

    /// Of an installation's containers, all on one bridge.
    pub(crate) fn of_bridge(installation: InstallationId) -> Self {
        Self {
            links: bridge_link_name(installation),
            comment: bridge_rule_comment(installation),
            table: bridge_table_name(installation),
        }
    }

    /// The two rules in a chain, as arguments and as they are listed.
    pub(crate) fn accepts(&self, chain: &str) -> [Vec<String>; 2] {
        let Self { links, comment, .. } = self;
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        [
            words(format!("{chain} -i {links} -m comment --comment {comment} -j ACCEPT")),
            words(format!(
                "{chain} -o {links} -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment {comment} -j ACCEPT"
            )),
        ]
    }
}

/// The commands for both families, and their older form where that is in use as well.
async fn programs() -> Vec<&'static str> {
    let mut programs = vec!["iptables", "ip6tables"];
    // Asking the older form would load its kernel module.
    for (program, tables) in
        [("iptables-legacy", "/proc/net/ip_tables_names"), ("ip6tables-legacy", "/proc/net/ip6_tables_names")]
    {
        if std::fs::read_to_string(tables).is_ok_and(|names| names.lines().any(|name| name == "filter")) {
            programs.push(program);
        }
    }
    programs.retain(|program| command::find(program).is_some());
    programs
}

/// What one program lists, and what is to be done there.
struct Chains {
    rules: Vec<Vec<String>>,
}

impl Chains {
    async fn list(program: &str) -> Result<Self, NetworkError> {
        let text = command::run(program, &["-w", "5", "-S"], "").await?;
        let rules = text
            .lines()
            .map(|line| line.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect())
            .collect();
        Ok(Self { rules })
    }

    /// The chain in which an accept is needed, if one is.
    fn target(&self) -> Option<&'static str> {
        let has = |words: &[&str]| self.rules.iter().any(|rule| rule.iter().eq(words.iter()));
        if has(&["-N", "DOCKER-USER"]) {
            return Some("DOCKER-USER");
        }
        let drops = |rule: &&Vec<String>| {
            rule.get(1).is_some_and(|chain| chain == "FORWARD")
                && rule.iter().any(|word| word == "DROP" || word == "REJECT" || word.starts_with("ufw"))
        };
        self.rules.iter().find(drops).map(|_| "FORWARD")
    }

    /// Rules of ours: chain and all that follows.
    fn ours(&self, passage: &Passage) -> Vec<&[String]> {
        self.rules
            .iter()
            .filter(|rule| rule.first().is_some_and(|word| word == "-A") && rule.contains(&passage.comment))
            .map(|rule| &rule[1..])
            .collect()
    }

    /// The accepts that are needed here, unless exactly those are there.
    fn missing(&self, passage: &Passage) -> Option<Vec<Vec<String>>> {
        let ours = self.ours(passage);
        let wanted: Vec<Vec<String>> =
            self.target().map(|chain| passage.accepts(chain).to_vec()).unwrap_or_default();
        let all_there = wanted.iter().all(|rule| ours.iter().any(|own| same(own, rule)));
        (ours.len() != wanted.len() || !all_there).then_some(wanted)
    }
}

async fn change(program: &str, what: &str, rule: &[String]) -> Result<(), NetworkError> {
    let mut args = vec!["-w", "5", what];
    args.extend(rule.iter().map(String::as_str));
    command::run(program, &args, "").await.map(drop)
}

/// What every program lists that has a firewall here.
async fn firewalls() -> Vec<(&'static str, Chains)> {
    let mut found = Vec::new();
    for program in programs().await {
        match Chains::list(program).await {
            Ok(chains) => found.push((program, chains)),
            // A kernel without this family's older tables has nothing that drops either.
            Err(error) => tracing::debug!("{program} cannot list its rules: {error}"),
        }
    }
    found
}

/// Makes sure that the accepts are where they are needed. Returns whether something had to be
/// changed.
pub(crate) async fn ensure(passage: &Passage) -> Result<bool, NetworkError> {
    let mut changed = false;
    for (program, chains) in firewalls().await {
        let Some(wanted) = chains.missing(passage) else { continue };
        changed = true;
        for rule in chains.ours(passage) {
            change(program, "-D", rule).await?;
        }
        for rule in &wanted {
            change(program, "-I", rule).await?;
        }
    }
    Ok(changed)
}

/// Whether the accepts are where they are needed.
pub(crate) async fn is_open(passage: &Passage) -> bool {
    firewalls().await.iter().all(|(_, chains)| chains.missing(passage).is_none())
}

/// Whether two rules say the same, whatever the order of their words.
fn same(one: &[String], other: &[String]) -> bool {
    let sorted = |rule: &[String]| {
        let mut words = rule.to_vec();
        words.sort();
        words
    };
    one.first() == other.first() && sorted(one) == sorted(other)
}

/// Removes every rule of ours.
pub(crate) async fn remove(passage: &Passage) -> Result<(), NetworkError> {
    for (program, chains) in firewalls().await {
        for rule in chains.ours(passage) {
            change(program, "-D", rule).await?;
        }
    }
    Ok(())
}

/// Firewalls in which this program puts nothing and that may drop sandboxes' packets, each
/// with what to do about it.
pub(crate) async fn obstacles(passage: &Passage) -> Vec<String> {
    let Ok(json) = command::run("nft", &["-j", "list", "chains"], "").await else { return Vec::new() };
    let listed: Value = serde_json::from_str(&json).unwrap_or_default();
    let links = &passage.links;
    let named = links.replace('+', "*");
    let text = |chain: &Value, name: &str| chain[name].as_str().unwrap_or_default().to_owned();
    listed["nftables"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("chain"))
        .filter(|chain| chain["hook"] == "forward" && chain["table"] != passage.table.as_str())
        .filter_map(|chain| match (text(chain, "family").as_str(), text(chain, "table").as_str()) {
            // Reached by iptables.
            ("ip" | "ip6", "filter") => None,
            (_, "firewalld") => Some(format!(
                "firewalld is running and may drop what sandboxes send; let it trust their links with \
                 `firewall-cmd --permanent --zone=trusted --add-interface={links} && firewall-cmd --reload`"
            )),
            (family, table) if chain["policy"] == "drop" => Some(format!(
                "the nftables chain {family} {table} {} drops what it does not know; add `iifname \"{named}\" \
                 accept` and `oifname \"{named}\" ct state established,related accept` to it",
                text(chain, "name")
            )),
            _ => None,
        })
        .collect()
}
