//! Who may depend on whom. The picture is in ARCHITECTURE.md; this is the picture as data, read
//! against the manifests. Dev-dependencies are free: a test may use anything.

use super::Violation;
use crate::repository::Package;

/// One of our crates and those of ours it may use.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
    /// Allowed behind a feature that only tests turn on.
    may_use_optionally: &'static [&'static str],
    why: &'static str,
}

const fn layer(name: &'static str, may_use: &'static [&'static str], why: &'static str) -> Layer {
    Layer { name, may_use, may_use_optionally: &[], why }
}

const A_PROVIDER: &[&str] =
    &["types", "protocol", "agent-client", "agent-bundle", "provider", "host-disk", "host-net", "images"];
const ONLY_WIRING_NAMES_PROVIDERS: &str =
    "it knows the provider trait; only the wiring in cli names a provider";
const ONE_BACKEND: &str = "a provider knows its backend and the provider trait, nothing above";

/// From the bottom to the top. A crate that is missing here is a violation, so that its place is
/// decided when it is made.
const LAYERS: &[Layer] = &[
    layer("types", &[], "the words everybody speaks depend on nobody"),
    layer("protocol", &["types"], "the wire knows the words only"),
    layer("agent", &["types", "protocol"], "it runs inside every sandbox: small, and nothing of the host"),
    layer("agent-bundle", &[], "it holds the agent's bytes, built apart"),
    layer("agent-client", &["types", "protocol"], "it speaks to an agent over any stream"),
    layer("host-disk", &[], "it knows the kernel's disks and mounts, not who asks for them"),
    layer("host-net", &["types"], "it knows the kernel's networking, not who asks for it"),
    layer("images", &[], "it makes and unpacks file trees, whoever runs something in them"),
    layer("store", &["types"], "it keeps what it is given"),
    Layer {
        name: "provider",
        may_use: &["types", "protocol", "agent-client"],
        may_use_optionally: &["agent", "agent-bundle"],
        why: "the trait knows the agent's stream; only the fake runs an agent itself",
    },
    layer("provider-local", A_PROVIDER, ONE_BACKEND),
    layer("provider-gvisor", A_PROVIDER, ONE_BACKEND),
    layer("provider-firecracker", A_PROVIDER, ONE_BACKEND),
    layer("provider-e2b", A_PROVIDER, ONE_BACKEND),
    layer("firecracker-manager", A_PROVIDER, "it owns the microVMs of one host, nothing above"),
    layer("orchestrator", &["types", "agent-client", "provider", "store"], ONLY_WIRING_NAMES_PROVIDERS),
    layer(
        "workspaces",
        &["types", "protocol", "agent-client", "provider", "store", "orchestrator"],
        ONLY_WIRING_NAMES_PROVIDERS,
    ),
    layer(
        "checkout",
        &["types", "protocol", "agent-client", "provider", "store", "workspaces"],
        ONLY_WIRING_NAMES_PROVIDERS,
    ),
    layer("mcp-bridge", &[], "it knows byte streams and MCP, and nothing of workspaces"),
    layer(
        "mcp-hosting",
        &[
            "types",
            "protocol",
            "agent-client",
            "provider",
            "store",
            "orchestrator",
            "workspaces",
            "mcp-bridge",
        ],
        ONLY_WIRING_NAMES_PROVIDERS,
    ),
    layer(
        "api",
        &[
            "types",
            "protocol",
            "agent-client",
            "provider",
            "store",
            "orchestrator",
            "workspaces",
            "checkout",
            "mcp-bridge",
            "mcp-hosting",
        ],
        ONLY_WIRING_NAMES_PROVIDERS,
    ),
    layer("client", &["types"], "a program that uses the API needs nothing of the server"),
];

/// May use anything of ours: the wiring, and what drives the whole from outside.
const WIRING: &[&str] = &["emergent-cli", "emergent-test-support", "emergent-e2e", BENCHMARKS];
const BENCHMARKS: &str = "bench";
/// Uses nothing of ours, so that it compiles first and works when they do not.
const APART: &str = "xtask";
/// Stand in for a library of the same name (`[patch]` in the root manifest): they use nothing of
/// ours, and ours do not use them.
const STAND_INS: &[&str] = &["pathrs"];

/// An outside system and the crates that may speak to it.
struct Outside {
    libraries: &'static [&'static str],
    homes: &'static [&'static str],
}

/// One outside system, one crate: what it is like is known in one place and can be replaced there.
/// The benchmarks are free: they compare us with the bare systems.
const OUTSIDE: &[Outside] = &[
    Outside { libraries: &["sqlx"], homes: &["emergent-store"] },
    Outside { libraries: &["bollard"], homes: &["emergent-provider-gvisor"] },
    Outside { libraries: &["libcontainer", "oci-spec"], homes: &["emergent-provider-local"] },
    Outside { libraries: &["rtnetlink", "nftables", "tokio-tun"], homes: &["emergent-host-net"] },
    Outside {
        libraries: &["axum"],
        homes: &["emergent-api", "emergent-firecracker-manager", "emergent-test-support"],
    },
    Outside {
        libraries: &["reqwest"],
        homes: &["emergent-client", "emergent-test-support", "emergent-e2e", "xtask"],
    },
];

pub(crate) fn check(packages: &[Package]) -> Vec<Violation> {
    let ours = |name: &str| packages.iter().any(|package| package.name == name);
    let mut violations = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        let layer = name.strip_prefix("emergent-").and_then(|short| LAYERS.iter().find(|l| l.name == short));
        let placed = layer.is_some() || name == APART || WIRING.contains(&name) || STAND_INS.contains(&name);
        if !placed {
            violations.push(format!("{name}: has no place in xtask/src/tidy/direction.rs; decide on one"));
            continue;
        }
        let real = package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        for dependency in real {
            let used = dependency.name.as_str();
            if let Some(outside) = OUTSIDE.iter().find(|outside| outside.libraries.contains(&used))
                && !outside.homes.contains(&name)
                && name != BENCHMARKS
            {
                violations.push(format!(
                    "{name} -> {used}: one outside system, one crate; this one belongs to {}",
                    outside.homes.join(", ")
                ));
            }
            if !ours(used) || WIRING.contains(&name) {
                continue;
            }
            let short = used.strip_prefix("emergent-").unwrap_or(used);
            let (allowed, why) = match layer {
                Some(layer) => (
                    layer.may_use.contains(&short)
                        || (dependency.optional && layer.may_use_optionally.contains(&short)),
                    layer.why,
                ),
                None => (false, "it must compile first and work when the rest does not"),
            };
            if !allowed {
                violations.push(format!("{name} -> {used}: against the dependency direction: {why}"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::{LAYERS, check};
    use crate::repository::{Dependency, Package};

    /// `a -> b` is a dependency, `a ~> b` an optional one, `a =dev=> b` one of the tests.
    fn package_graph(edges: &[&str]) -> Vec<Package> {
        let mut packages: Vec<Package> = Vec::new();
        let ours = |name: &str| name.starts_with("emergent-") || ["xtask", "bench"].contains(&name);
        for edge in edges {
            let [from, arrow, to] = edge.split(' ').collect::<Vec<_>>()[..] else {
                panic!("an edge has three words");
            };
            for name in [from, to].into_iter().filter(|name| ours(name)) {
                if !packages.iter().any(|package| package.name == name) {
                    packages.push(Package {
                        name: name.to_owned(),
                        manifest_path: "Cargo.toml".into(),
                        dependencies: Vec::new(),
                    });
                }
            }
            let dependency = Dependency {
                name: to.to_owned(),
                kind: (arrow == "=dev=>").then(|| "dev".to_owned()),
                optional: arrow == "~>",
            };
            packages.iter_mut().find(|p| p.name == from).unwrap().dependencies.push(dependency);
        }
        packages
    }

    fn refused(edge: &str, reason: &str) {
        let violations = check(&package_graph(&[edge]));
        assert!(violations.iter().any(|violation| violation.contains(reason)), "{edge}: {violations:?}");
    }

    fn allowed(edge: &str) {
        let violations = check(&package_graph(&[edge]));
        assert!(violations.is_empty(), "{edge}: {violations:?}");
    }

    #[test]
    fn dependencies_point_down() {
        allowed("emergent-api -> emergent-workspaces");
        allowed("emergent-cli -> emergent-provider-local");
        allowed("emergent-agent -> emergent-protocol");
        refused("emergent-types -> emergent-protocol", "direction");
        refused("emergent-workspaces -> emergent-api", "direction");
        refused("emergent-agent -> emergent-agent-client", "direction");
        refused("xtask -> emergent-types", "compile first");
    }

    #[test]
    fn only_the_wiring_names_a_provider() {
        refused("emergent-api -> emergent-provider-local", "only the wiring");
        refused("emergent-workspaces -> emergent-provider-gvisor", "only the wiring");
        refused("emergent-orchestrator -> emergent-provider-e2b", "only the wiring");
    }

    #[test]
    fn an_outside_system_stays_in_its_crate() {
        allowed("emergent-store -> sqlx");
        allowed("bench -> libcontainer");
        refused("emergent-api -> sqlx", "belongs to emergent-store");
        refused("emergent-cli -> bollard", "belongs to emergent-provider-gvisor");
        refused("emergent-workspaces -> axum", "belongs to emergent-api");
    }

    #[test]
    fn tests_and_test_features_may_reach_further() {
        allowed("emergent-api =dev=> emergent-provider-local");
        allowed("emergent-provider ~> emergent-agent");
        refused("emergent-provider -> emergent-agent", "direction");
    }

    #[test]
    fn a_new_crate_must_be_given_a_place() {
        refused("emergent-novelty -> serde", "has no place");
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                let below = LAYERS[..index].iter().any(|lower| lower.name == *used);
                assert!(below, "{} may use {used}, which does not stand below it", layer.name);
            }
        }
    }
}
