//! The tiers: which tests belong together, what they need of the machine, how long they may take.
//! This table is the only place that knows; a new tier is a new row.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

/// The name of a tier, as typed after `--tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum TierName {
    Unit,
    Store,
    Local,
    Api,
    Gvisor,
    Kvm,
    Mcp,
    E2b,
    Browser,
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("?", |value| value.get_name()))
    }
}

/// A group of tests with the same needs.
pub(crate) struct Tier {
    pub(crate) name: TierName,
    /// Tests that start sandboxes need root.
    pub(crate) needs_root: bool,
    pub(crate) tools: &'static [Tool],
    pub(crate) tests: Tests,
    /// Wall time of the tests alone, with everything built, on two cores. A tier that takes longer
    /// has failed: slow suites are not run, and suites that are not run rot.
    pub(crate) budget: Duration,
}

/// Which tests a tier has.
pub(crate) enum Tests {
    /// Those a nextest filterset selects. There must be at least one.
    Selected(&'static str),
    /// None so far; the tier's name is known so that scripts can already use it.
    NotYet,
}

/// A program a tier needs, and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tool {
    pub(crate) command: &'static str,
    pub(crate) package: &'static str,
    /// The Debian release whose own version is too old, so that its backports are used there.
    pub(crate) too_old_in: Option<&'static str>,
}

const fn tool(command: &'static str, package: &'static str) -> Tool {
    Tool { command, package, too_old_in: None }
}

/// Formats the disk of a local sandbox.
const MKFS: Tool = tool("mkfs.ext4", "e2fsprogs");

/// A private Docker daemon with gVisor under it. `docker` itself is not asked for: the tests talk
/// to their daemon's socket, and whatever client the machine has is left alone.
const GVISOR_TOOLS: &[Tool] = &[
    tool("dockerd", "docker.io"),
    tool("iptables", "iptables"),
    // bookworm's own runsc is of 2022 and does not run on current kernels.
    Tool { command: "runsc", package: "runsc", too_old_in: Some("bookworm") },
];

/// Every tier, in the order they run: the quick ones first.
pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: TierName::Unit,
        needs_root: false,
        tools: &[],
        // What no other tier takes, so that a new crate's tests run without anybody thinking of it.
        tests: Tests::Selected(
            "not (package(emergent-store) | package(emergent-provider-local) \
             | package(emergent-e2e))",
        ),
        budget: Duration::from_secs(180),
    },
    Tier {
        name: TierName::Store,
        needs_root: false,
        tools: &[],
        tests: Tests::Selected("package(emergent-store)"),
        budget: Duration::from_secs(180),
    },
    Tier {
        name: TierName::Local,
        needs_root: true,
        tools: &[MKFS],
        tests: Tests::Selected("package(emergent-provider-local) | (package(emergent-e2e) & binary(local))"),
        budget: Duration::from_secs(420),
    },
    Tier {
        name: TierName::Api,
        needs_root: true,
        tools: &[MKFS],
        tests: Tests::Selected("package(emergent-e2e) & binary(api)"),
        budget: Duration::from_secs(420),
    },
    Tier {
        name: TierName::Gvisor,
        needs_root: true,
        tools: GVISOR_TOOLS,
        tests: Tests::Selected("package(emergent-e2e) & binary(gvisor)"),
        budget: Duration::from_secs(420),
    },
    not_yet(TierName::Kvm),
    not_yet(TierName::Mcp),
    not_yet(TierName::E2b),
    not_yet(TierName::Browser),
];

const fn not_yet(name: TierName) -> Tier {
    Tier { name, needs_root: false, tools: &[], tests: Tests::NotYet, budget: Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::{TIERS, Tests, TierName};
    use clap::ValueEnum;

    #[test]
    fn every_name_has_exactly_one_row_in_order() {
        let rows: Vec<TierName> = TIERS.iter().map(|tier| tier.name).collect();
        assert_eq!(rows, TierName::value_variants());
    }

    #[test]
    fn a_tier_with_tests_has_a_budget() {
        for tier in TIERS {
            let has_tests = matches!(tier.tests, Tests::Selected(_));
            assert_eq!(has_tests, !tier.budget.is_zero(), "{}", tier.name);
        }
    }
}
