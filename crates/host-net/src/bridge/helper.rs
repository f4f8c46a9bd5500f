//! The rules as a script, for engines on other hosts than the server's.
//!
//! The engine starts a container in its host's network that runs it and ends. `sh`, `nft` and what
//! every small image has are enough; `iptables` is used where it is, `ip` where the kernel needs
//! it.

use std::fmt::Write;

use emergent_types::InstallationId;

use crate::bridge::{BridgeRules, Flaw, Separation};
use crate::names::{bridge_link_name, bridge_rule_comment, bridge_table_name};

const BODY: &str = include_str!("helper.sh");

/// The sets whose content is part of the rules. The others are filled by whoever sends.
const SETS: &str = "allow4 allow6 deny4 deny6";

/// How the last line of a script begins.
const MARK: &str = "emergent-bridge ";

/// What a script does. Each may be run at any time and any number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperAction {
    /// Puts the rules and the accepts in place. Where the rules cannot be, takes the bridge down until
    /// they are.
    Install,
    /// Looks and puts nothing right. Where there are no rules, takes the bridge down.
    Verify,
    /// Removes the rules and the accepts. For when the network is gone.
    Remove,
}

/// A text for `sh -c`, to be run as root in a container with the network of the engine's host and
/// the capability `NET_ADMIN`, from an image with `nft`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperScript(String);

/// What a script has found when it was done. As long as there are flaws, no container may be connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperReport {
    /// How the bridge's ports are kept apart; `None` when there are no rules.
    pub separation: Option<Separation>,
    /// Whether accepts in another firewall had to be changed.
    pub renewed: bool,
    /// What is wrong as far as the script can tell. That rules are there and changed is told by the
    /// digest.
    pub flaws: Vec<Flaw>,
    /// A number for what the kernel shows: the same as after the installation as long as nobody has
    /// changed the rules.
    pub digest: String,
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelperFailure {
    /// Something could not be done.
    #[error("the rules cannot be put in place on the engine's host: {0}")]
    Refused(String),
    /// The script did not come to its end.
    #[error("the helper on the engine's host gave no report")]
    NoReport,
}

impl HelperScript {
    /// Removes what is there of an installation.
    pub fn remove(installation: InstallationId) -> Self {
        Self::new(installation, HelperAction::Remove, "", ["", ""])
    }

    fn new(
        installation: InstallationId,
        action: HelperAction,
        gateway6: &str,
        [by_bridge, by_address]: [&str; 2],
    ) -> Self {
        let (link, table) = (bridge_link_name(installation), bridge_table_name(installation));
        let comment = bridge_rule_comment(installation);
        let action = match action {
            HelperAction::Install => "install",
            HelperAction::Verify => "verify",
            HelperAction::Remove => "remove",
        };
        let mut text = format!(
            "action={action} link={link} gateway6={gateway6} table={table} comment={comment}\nsets='{SETS}'\n"
        );
        for (name, rules) in [("rules_by_bridge", by_bridge), ("rules_by_address", by_address)] {
            let _ = write!(text, "{name}() {{\ncat <<'END_OF_RULES'\n{rules}END_OF_RULES\n}}\n");
        }
        text.push_str(BODY);
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BridgeRules {
    /// The rules as a script for a helper on the engine's host.
    pub fn as_helper_script(&self, action: HelperAction) -> HelperScript {
        let [by_bridge, by_address] =
            [Separation::ByBridge, Separation::ByAddress].map(|separation| self.script(separation));
        let gateway6 = self.subnets.gateway6().zip(self.subnets.range6());
        let gateway6 = gateway6.map(|(gateway, range)| format!("{gateway}/{}", range.prefix()));
        let rules = [by_bridge.as_str(), by_address.as_str()];
        HelperScript::new(self.installation, action, gateway6.as_deref().unwrap_or_default(), rules)
    }
}

impl HelperReport {
    /// Reads the last line of what a script has written.
    pub fn parse(output: &str) -> Result<Self, HelperFailure> {
        let line = output.lines().rev().find_map(|line| line.strip_prefix(MARK));
        let line = line.ok_or(HelperFailure::NoReport)?;
        if let Some(reason) = line.strip_prefix("failed ") {
            return Err(HelperFailure::Refused(reason.trim().to_owned()));
        }
        let fields = line.strip_prefix("ok ").ok_or(HelperFailure::NoReport)?;
        let field = |name: &str| {
            let words = fields.split_whitespace();
            words
                .filter_map(|word| word.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let separation = match field("separation") {
            Some("by-bridge") => Some(Separation::ByBridge),
            Some("by-address") => Some(Separation::ByAddress),
            Some("none") => None,
            _ => return Err(HelperFailure::NoReport),
        };
        let mut flaws = Vec::new();
        match field("bridge") {
            Some("here") => {}
            Some("missing") => flaws.push(Flaw::NoBridge),
            Some("open") => flaws.push(Flaw::PacketsNotShown),
            _ => return Err(HelperFailure::NoReport),
        }
        let digest = field("digest").filter(|digest| !digest.is_empty());
        let digest = digest.ok_or(HelperFailure::NoReport)?.to_owned();
        if separation.is_none() || digest == "none" {
            flaws.push(Flaw::Rules);
        }
        if field("accepts") == Some("missing") {
            flaws.push(Flaw::Accepts);
        }
        Ok(Self { separation, renewed: field("accepts") == Some("renewed"), flaws, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_and_nothing_else_is() {
        let good = "noise\nemergent-bridge ok separation=by-address bridge=here accepts=renewed digest=1-2\n";
        let report = HelperReport::parse(good).unwrap();
        assert_eq!(report.separation, Some(Separation::ByAddress));
        assert!(report.renewed && report.flaws.is_empty() && report.digest == "1-2");
        let bad = "emergent-bridge ok separation=none bridge=open accepts=missing digest=1-2";
        let flaws = HelperReport::parse(bad).unwrap().flaws;
        assert_eq!(flaws, [Flaw::PacketsNotShown, Flaw::Rules, Flaw::Accepts]);
        let refused = HelperReport::parse("emergent-bridge failed nft: Operation not permitted \n");
        assert_eq!(refused, Err(HelperFailure::Refused("nft: Operation not permitted".to_owned())));
        for nothing in [
            "",
            "sh: nft: not found",
            "emergent-bridge ok",
            "emergent-bridge ok separation=by-bridge accepts=kept digest=1",
            "emergent-bridge ok separation=by-bridge bridge=here accepts=kept",
            "emergent-bridge ok separation=by-bridge bridge=here accepts=kept digest=",
        ] {
            assert_eq!(HelperReport::parse(nothing), Err(HelperFailure::NoReport), "{nothing:?}");
        }
    }
}
