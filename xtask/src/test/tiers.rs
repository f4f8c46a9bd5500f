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
    Schema,
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
    pub(crate) python: &'static [PythonTool],
    pub(crate) node: &'static [NodeFolder],
    pub(crate) tests: Tests,
    /// Those of them that wait for `--long`: what the others show each time, once more on a rarer path. The
    /// summary counts them.
    pub(crate) only_long: Option<&'static str>,
    /// A program of this workspace that runs beside the tests.
    pub(crate) beside: Option<&'static str>,
    /// How many of its tests may fail once and pass when they are run again. Only where tests wait for
    /// daemons, kernels and disks of a machine that others use too, and few: each is named at the end, and
    /// one more fails the tier.
    pub(crate) second_tries: usize,
    /// Wall time of the tests alone, with everything built, on two cores that also build something else when
    /// they would be idle. A tier that takes longer has failed: slow suites are not run, and suites that are
    /// not run rot.
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

/// A program from PyPI. It gets a folder of its own below `target`, so that nothing else on the
/// machine changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PythonTool {
    /// Its folder.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
}

/// Packages from npm that are installed together, in a folder of their own below `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeFolder {
    pub(crate) name: &'static str,
    pub(crate) packages: &'static [&'static str],
}

const fn tool(command: &'static str, package: &'static str) -> Tool {
    Tool { command, package, too_old_in: None }
}

/// Formats the disk of a local sandbox.
const MKFS: Tool = tool("mkfs.ext4", "e2fsprogs");

/// What a local sandbox is connected and looked at with, a daemon whose firewall it must get along
/// with, and the shell of small images.
const LOCAL_TOOLS: &[Tool] = &[
    MKFS,
    tool("nft", "nftables"),
    tool("iptables", "iptables"),
    tool("ip", "iproute2"),
    tool("dockerd", "docker.io"),
    tool("busybox", "busybox-static"),
];

/// A PostgreSQL server in a temporary folder. Debian keeps the server's own programs out of
/// `PATH`; the package that has this one always comes with them.
const POSTGRES: Tool = tool("pg_ctlcluster", "postgresql");

/// The API on both databases, with sandboxes that have a network.
const API_TOOLS: &[Tool] =
    &[MKFS, tool("nft", "nftables"), tool("iptables", "iptables"), tool("ip", "iproute2"), POSTGRES];

/// gVisor. bookworm's own is of 2022 and does not run on current kernels.
const RUNSC: Tool = Tool { command: "runsc", package: "runsc", too_old_in: Some("bookworm") };

/// A private Docker daemon with gVisor under it, and what its images and disks are made with.
const GVISOR_TOOLS: &[Tool] = &[
    tool("dockerd", "docker.io"),
    tool("iptables", "iptables"),
    tool("nft", "nftables"),
    tool("ip", "iproute2"),
    MKFS,
    RUNSC,
    // Makes the workspace image.
    tool("mmdebstrap", "mmdebstrap"),
    // Makes the certificates of a Docker behind TLS.
    tool("openssl", "openssl"),
    NPM,
    PYTHON,
];

const NPM: Tool = tool("npm", "npm");
const PYTHON: Tool = tool("python3", "python3");

/// The JavaScript that the official suite asks for, whichever one the host has.
const NODE_RUNTIME: NodeFolder = NodeFolder { name: "runtime", packages: &["node@22.23.3"] };

/// MCP servers as everybody uses them.
const MCP_SERVERS: NodeFolder = NodeFolder {
    name: "servers",
    packages: &[
        "@modelcontextprotocol/server-everything@2026.8.31",
        "@modelcontextprotocol/server-memory@2026.8.31",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
    ],
};

/// MCP clients of both generations, and the official conformance suite.
const MCP_CLIENTS: NodeFolder = NodeFolder {
    name: "clients",
    packages: &[
        "@modelcontextprotocol/sdk@1.32.2",
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    ],
};

/// Another bridge, to compare with.
const MCP_GATEWAY: NodeFolder = NodeFolder { name: "gateway", packages: &["supergateway@4.0.0"] };

/// MCP servers from PyPI.
const MCP_SERVER_TIME: PythonTool =
    PythonTool { name: "mcp-server-time", package: "mcp-server-time", version: "2026.10.19" };
const MCP_SERVER_GIT: PythonTool =
    PythonTool { name: "mcp-server-git", package: "mcp-server-git", version: "2026.10.19" };

/// They, and clients of both generations.
const MCP_PYTHON: &[PythonTool] = &[
    MCP_SERVER_TIME,
    MCP_SERVER_GIT,
    PythonTool { name: "mcp-2", package: "mcp", version: "2.3.0" },
    PythonTool { name: "mcp-1", package: "mcp", version: "1.30.0" },
];

/// What the benchmarks compare with.
const BENCH_TOOLS: &[Tool] = &[
    MKFS,
    POSTGRES,
    tool("rg", "ripgrep"),
    tool("dockerd", "docker.io"),
    tool("iptables", "iptables"),
    tool("nft", "nftables"),
    RUNSC,
    tool("mmdebstrap", "mmdebstrap"),
    NPM,
];

/// Docker's own runtime, and volumes of an engine that may be elsewhere: where they are not what gVisor and its disks
/// are, there are tests of that, and the suite that all providers share is run over those two each time. And a whole
/// system that is downloaded and thrown away in the middle.
const GVISOR_ONLY_LONG: &str =
    "test(/^(dockers_own|on_volumes)::/) | test(=debian::cancelled_in_the_middle_nothing_is_left)";

/// Every tier, in the order they run: the quick ones first.
pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: TierName::Unit,
        needs_root: false,
        tools: &[],
        python: &[],
        node: &[],
        // What no other tier takes, so that a new crate's tests run without anybody thinking of it.
        tests: Tests::Selected(
            "not (package(emergent-store) | package(/^emergent-provider-(local|gvisor)/) \
             | (package(/^emergent-(host-|images)/) & binary(host)) | package(emergent-e2e))",
        ),
        only_long: None,
        beside: None,
        second_tries: 1,
        budget: Duration::from_secs(540),
    },
    Tier {
        name: TierName::Store,
        needs_root: false,
        tools: &[POSTGRES],
        python: &[],
        node: &[],
        tests: Tests::Selected("package(emergent-store)"),
        only_long: None,
        beside: None,
        second_tries: 0,
        budget: Duration::from_secs(180),
    },
    Tier {
        name: TierName::Local,
        needs_root: true,
        tools: LOCAL_TOOLS,
        python: &[],
        node: &[],
        tests: Tests::Selected(
            "package(emergent-provider-local) | (package(/^emergent-host-/) & binary(host)) \
             | (package(emergent-e2e) & binary(local))",
        ),
        only_long: None,
        beside: None,
        second_tries: 2,
        budget: Duration::from_secs(1320),
    },
    Tier {
        name: TierName::Api,
        needs_root: true,
        tools: API_TOOLS,
        python: &[],
        node: &[],
        tests: Tests::Selected("package(emergent-e2e) & binary(api)"),
        only_long: None,
        beside: None,
        second_tries: 2,
        budget: Duration::from_secs(540),
    },
    Tier {
        name: TierName::Schema,
        needs_root: true,
        tools: &[MKFS, PYTHON],
        python: &[PythonTool { name: "schemathesis", package: "schemathesis", version: "4.32.5" }],
        node: &[],
        tests: Tests::Selected("package(emergent-e2e) & binary(schema)"),
        only_long: None,
        beside: None,
        second_tries: 0,
        budget: Duration::from_secs(300),
    },
    Tier {
        name: TierName::Gvisor,
        needs_root: true,
        tools: GVISOR_TOOLS,
        python: &[MCP_SERVER_TIME, MCP_SERVER_GIT],
        node: &[NODE_RUNTIME, MCP_SERVERS],
        tests: Tests::Selected(
            "package(emergent-provider-gvisor) | (package(emergent-images) & binary(host)) \
             | (package(emergent-e2e) & binary(gvisor))",
        ),
        only_long: Some(GVISOR_ONLY_LONG),
        beside: Some("emergent-test-docker"),
        second_tries: 3,
        budget: Duration::from_secs(2400),
    },
    not_yet(TierName::Kvm),
    Tier {
        name: TierName::Mcp,
        needs_root: true,
        tools: &[MKFS, NPM, PYTHON, tool("git", "git")],
        python: MCP_PYTHON,
        node: &[NODE_RUNTIME, MCP_SERVERS, MCP_CLIENTS],
        tests: Tests::Selected("package(emergent-e2e) & binary(mcp)"),
        only_long: None,
        beside: None,
        second_tries: 1,
        budget: Duration::from_secs(360),
    },
    not_yet(TierName::E2b),
    not_yet(TierName::Browser),
];

/// Not a tier of tests: what the benchmarks need, in the same form.
pub(crate) const BENCH: Tier = Tier {
    name: TierName::Local,
    needs_root: true,
    tools: BENCH_TOOLS,
    python: &[],
    node: &[NODE_RUNTIME, MCP_SERVERS, MCP_GATEWAY],
    tests: Tests::NotYet,
    only_long: None,
    beside: None,
    second_tries: 0,
    budget: Duration::ZERO,
};

const fn not_yet(name: TierName) -> Tier {
    Tier {
        name,
        needs_root: false,
        tools: &[],
        python: &[],
        node: &[],
        tests: Tests::NotYet,
        only_long: None,
        beside: None,
        second_tries: 0,
        budget: Duration::ZERO,
    }
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
