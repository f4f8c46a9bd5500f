//! The rules on this host: put in place, compared, put right, removed.
//!
//! ```text
//!  apply_here ─► tables ─► the bridge shows its packets ─► accepts in other firewalls ─► InPlace
//!                                                                                          │
//!            is_untouched (a number of the kernel's) ─ no ─► repair, or verify_here ◄──────┘
//!                                                              │ not certain to be in place
//!                                                              ▼
//!                                                            the bridge down, until they are
//! ```

use std::fmt;

use emergent_types::InstallationId;

use crate::bridge::link::Bridge;
use crate::bridge::rules::FAMILIES;
use crate::bridge::{BridgeRules, Separation};
use crate::closing::disconnect;
use crate::command::{self, block_on};
use crate::error::NetworkError;
use crate::firewall::{self, Passage};
use crate::names::{bridge_link_name, bridge_table_name};
use crate::netlink::Netlink;
use crate::network::Repair;
use crate::rules::{Listing, copy_name, delete, replace};
use crate::watch::generation;

/// Rules that are in place on this host. All methods block and must be called where that is
/// allowed. The rules stay when this is dropped.
#[derive(Debug)]
pub struct InPlace {
    rules: BridgeRules,
    separation: Separation,
    /// What the kernel showed when they had just been put there.
    listed: Listed,
    /// How often the kernel's rules had been changed when they were last seen as they should be.
    generation: Option<u32>,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// There is no such bridge with such an address in this network namespace: the network is not
    /// made yet, or its engine is somewhere else.
    NoBridge,
    /// Ports of the bridge are kept apart by addresses alone.
    PacketsNotShown,
    /// The tables are changed or gone.
    Rules,
    /// An accept in another firewall is missing or too many.
    Accepts,
}

impl Flaw {
    /// Whether something could pass that must not.
    fn lets_through(self) -> bool {
        match self {
            Self::PacketsNotShown | Self::Rules => true,
            Self::NoBridge | Self::Accepts => false,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBridge => "the containers' bridge is not on this host",
            Self::PacketsNotShown => {
                "the kernel cannot tell the ports of the containers' bridge from others and has no \
                 br_netfilter; load that module"
            }
            Self::Rules => "the rules of the containers' bridge are changed or gone",
            Self::Accepts => "another firewall's accepts for the containers' bridge are changed or gone",
        })
    }
}

/// Both tables.
#[derive(Debug, PartialEq, Eq)]
struct Listed(Vec<Option<Listing>>);

impl Listed {
    async fn of(installation: InstallationId) -> Result<Self, NetworkError> {
        let table = bridge_table_name(installation);
        let mut listings = Vec::new();
        for family in FAMILIES {
            listings.push(Listing::of_table(family, &table).await?);
        }
        Ok(Self(listings))
    }

    fn is_whole(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }
}

impl BridgeRules {
    /// Whether this host takes the rules, and if not, why. Changes nothing.
    pub fn enforceable_here(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("the server is not root, which the network rules of containers need".to_owned());
        }
        if command::find("nft").is_none() {
            return Err("nft is not installed; install the package nftables".to_owned());
        }
        block_on(self.best()).map(drop).map_err(|error| {
            format!(
                "the kernel does not take the network rules, which need CAP_NET_ADMIN and nftables: {error}"
            )
        })
    }

    /// Puts the rules in place; earlier ones are replaced in one step. To be called when the
    /// network is made and before its first container, at every start of the server, and when what
    /// they depend on has changed. Blocks.
    ///
    /// No container may be connected before [`InPlace::verify_here`] finds nothing: where the network is
    /// not made yet, or its engine is somewhere else, or the kernel cannot keep ports apart, the rules
    /// are in place all the same. Where they are not certain to be, the bridge goes down.
    pub fn apply_here(&self) -> Result<InPlace, NetworkError> {
        block_on(async {
            match self.deny().await {
                Ok(mut in_place) => in_place.settle().await.map(|_| in_place),
                Err(error) => {
                    self.close().await;
                    Err(error)
                }
            }
        })
    }

    /// The tables alone.
    async fn deny(&self) -> Result<InPlace, NetworkError> {
        let separation = self.best().await?;
        let listed = self.put_in_place(separation).await?;
        Ok(InPlace { rules: self.clone(), separation, listed, generation: None })
    }

    /// The best form of the rules that the kernel takes.
    async fn best(&self) -> Result<Separation, NetworkError> {
        let check =
            async |separation| command::run("nft", &["-c", "-f", "-"], &self.script(separation)).await;
        match check(Separation::ByBridge).await {
            Ok(_) => Ok(Separation::ByBridge),
            Err(NetworkError::Refused { .. }) => {
                check(Separation::ByAddress).await.map(|_| Separation::ByAddress)
            }
            Err(error) => Err(error),
        }
    }

    async fn put_in_place(&self, separation: Separation) -> Result<Listed, NetworkError> {
        let table = bridge_table_name(self.installation);
        replace(&FAMILIES, &table, &self.script(separation)).await?;
        let listed = Listed::of(self.installation).await?;
        if listed.is_whole() {
            return Ok(listed);
        }
        Err(NetworkError::Refused {
            program: "nft".to_owned(),
            reason: "a table of the containers' bridge was removed at once".to_owned(),
        })
    }

    async fn bridge(&self, netlink: &Netlink) -> Result<Option<Bridge>, NetworkError> {
        Bridge::find(netlink, &self.link(), self.subnets.gateway4().into()).await
    }

    /// Firewalls of others on this host that may drop what containers send, with what to do about
    /// it.
    pub fn obstacles_here(&self) -> Vec<String> {
        block_on(async { Ok(firewall::obstacles(&Passage::of_bridge(self.installation)).await) })
            .unwrap_or_default()
    }
}

impl InPlace {
    /// The rules.
    pub fn rules(&self) -> &BridgeRules {
        &self.rules
    }

    /// How the bridge's ports are kept apart.
    pub fn separation(&self) -> Separation {
        self.separation
    }

    /// Whether nobody has changed any rule of the kernel's since. Takes some microseconds. What it
    /// does not see (an older firewall's tables, settings of the bridge) is found by a closer look.
    pub fn is_untouched(&self) -> bool {
        generation().is_ok_and(|now| self.generation == Some(now))
    }

    /// Compares everything with what it should be. Puts nothing right, but where it is not certain
    /// that the rules are in place the bridge goes down, until [`repair`](Self::repair) has put them there.
    pub fn verify_here(&self) -> Result<Vec<Flaw>, NetworkError> {
        block_on(async {
            let mut looked = self.look().await;
            if looked.is_err() {
                // One look that fails says little, and the bridge is everybody's.
                looked = self.look().await;
            }
            if !self.denies(&looked) {
                self.rules.close().await;
            }
            let mut flaws = looked?;
            if !firewall::is_open(&Passage::of_bridge(self.rules.installation)).await {
                flaws.push(Flaw::Accepts);
            }
            Ok(flaws)
        })
    }

    /// What is wrong with the bridge and the tables.
    async fn look(&self) -> Result<Vec<Flaw>, NetworkError> {
        let mut flaws = Vec::new();
        match self.rules.bridge(&Netlink::open()?).await? {
            None => flaws.push(Flaw::NoBridge),
            Some(bridge) if self.separation == Separation::ByAddress && !bridge.shows_packets => {
                flaws.push(Flaw::PacketsNotShown);
            }
            Some(_) => {}
        }
        if Listed::of(self.rules.installation).await? != self.listed {
            flaws.push(Flaw::Rules);
        }
        Ok(flaws)
    }

    /// Whether the rules are in place for certain, by what was seen.
    fn denies(&self, looked: &Result<Vec<Flaw>, NetworkError>) -> bool {
        match looked {
            Ok(flaws) => !flaws.iter().any(|flaw| flaw.lets_through()),
            // The number tells nothing of the bridge's own settings.
            Err(_) => self.separation == Separation::ByBridge && self.is_untouched(),
        }
    }

    /// Puts right what somebody else has changed. Whatever goes wrong: where the rules are not certain
    /// to be in place, the bridge is down; where they are, it is up.
    pub fn repair(&mut self) -> Result<Repair, NetworkError> {
        block_on(async {
            let rules = match self.renew().await {
                Ok(renewed) => renewed,
                Err(error) => {
                    self.shut_or_open().await?;
                    return Err(error);
                }
            };
            let accepts = self.settle().await?;
            Ok(Repair { rules, accepts })
        })
    }

    /// Puts the tables back, if they are changed or gone. Returns whether they were.
    async fn renew(&mut self) -> Result<bool, NetworkError> {
        let changed = Listed::of(self.rules.installation).await? != self.listed;
        if changed {
            self.listed = self.rules.put_in_place(self.separation).await?;
        }
        Ok(changed)
    }

    /// What comes after the tables. Returns whether accepts had to be changed.
    async fn settle(&mut self) -> Result<bool, NetworkError> {
        let completed = self.complete().await;
        self.shut_or_open().await?;
        completed
    }

    async fn shut_or_open(&self) -> Result<(), NetworkError> {
        if self.denies(&self.look().await) {
            return self.rules.open().await;
        }
        self.rules.close().await;
        Ok(())
    }

    async fn complete(&mut self) -> Result<bool, NetworkError> {
        if self.separation == Separation::ByAddress {
            let netlink = Netlink::open()?;
            if let Some(bridge) = self.rules.bridge(&netlink).await? {
                bridge.show_packets(&netlink).await?;
            }
        }
        let accepts = firewall::ensure(&Passage::of_bridge(self.rules.installation)).await?;
        let now = generation().map_err(NetworkError::system("generation of rules"))?;
        if Listed::of(self.rules.installation).await? == self.listed {
            self.generation = Some(now);
            return Ok(accepts);
        }
        Err(NetworkError::Unenforceable(
            "somebody else changes the rules of the containers' bridge".to_owned(),
        ))
    }
}

/// Takes an installation's bridge on this host down where its tables are not all there. For when the rules
/// cannot even be written: what they are to be is not known, but what is on the bridge must not be without.
/// Blocks.
pub fn close_without_rules_here(installation: InstallationId) {
    let closed = block_on(async {
        let are_there = Listed::of(installation).await.is_ok_and(|listed| listed.is_whole());
        if !are_there {
            let name = bridge_link_name(installation);
            disconnect("the containers' bridge", |link| link.name == name).await;
        }
        Ok(())
    });
    if let Err(error) = closed {
        tracing::error!(security = true, "the containers' bridge could not be looked at: {error}");
    }
}

/// Removes the rules of an installation's bridge from this host; none at all is success. For when
/// the network is gone: containers on the bridge would be without rules. Blocks.
pub fn remove_here(installation: InstallationId) -> Result<(), NetworkError> {
    if command::find("nft").is_none() {
        return Ok(());
    }
    block_on(async {
        firewall::remove(&Passage::of_bridge(installation)).await?;
        let table = bridge_table_name(installation);
        for name in [copy_name(&table), table] {
            delete(&FAMILIES, &name).await?;
        }
        Ok(())
    })
}
