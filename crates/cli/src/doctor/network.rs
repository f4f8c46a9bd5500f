//! Whether workspaces can have the network `internet`: sends real packets through this host.

use emergent_provider_local::host_net::{Trial, TrialResult, obstacles, run_trial};

use super::finding::Finding;
use super::{kernel, tools};

const NAME: &str = "network";

const COST: &str = "workspaces have no network (`isolated`); a request for `internet` is refused";

pub(super) fn check() -> Finding {
    if !kernel::is_root() {
        let found = "not tried: to make links and rules for workspaces takes root";
        return Finding::warning(NAME, found, COST, kernel::AS_ROOT);
    }
    if tools::find("nft").is_none() {
        return Finding::warning(NAME, "nft is not installed", COST, "install the package nftables");
    }
    match run_trial() {
        Ok(results) => judge(&results, obstacles),
        Err(error) => Finding::warning(
            NAME,
            error.to_string(),
            COST,
            "run the server where it has CAP_NET_ADMIN, the kernel has nftables, and /proc/sys/net can be \
             written to: not in a container that lacks these",
        ),
    }
}

fn judge(results: &[TrialResult], obstacles: impl FnOnce() -> Vec<String>) -> Finding {
    let bad: Vec<&TrialResult> = results.iter().filter(|result| !result.is_good()).collect();
    if bad.is_empty() {
        let families = if results.iter().any(|result| result.trial == Trial::Internet6) {
            "IPv4 and IPv6"
        } else {
            "IPv4"
        };
        return Finding::ok(NAME, format!("packets went out, private addresses were refused ({families})"));
    }
    let open: Vec<String> =
        bad.iter().filter(|result| result.reached.is_ok()).map(|result| describe(result)).collect();
    if !open.is_empty() {
        return Finding::missing(
            NAME,
            open.join(", "),
            "a workspace with the network `internet` could reach what it must not",
            "do not use that network here: set WORKSPACE_DEFAULT_NETWORK=isolated, and report this",
        );
    }
    let found: Vec<String> = bad.iter().map(|result| describe(result)).collect();
    let remedy = match obstacles() {
        known if known.is_empty() => {
            "look for rules that drop forwarded packets with `nft list ruleset`".to_owned()
        }
        known => known.join("; "),
    };
    Finding::warning(NAME, found.join(", "), "workspaces with the network `internet` reach nothing", &remedy)
}

fn describe(result: &TrialResult) -> String {
    let way = match result.trial {
        Trial::Internet4 => "an address outside",
        Trial::Internet6 => "an address outside over IPv6",
        Trial::Denied4 => "a private address",
        Trial::Denied6 => "a private address over IPv6",
        Trial::Host4 => "an address of this host",
    };
    match &result.reached {
        Ok(()) => format!("{way} was reached"),
        Err(reason) => format!("{way} was not reached: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn result(trial: Trial, reached: bool) -> TrialResult {
        TrialResult { trial, reached: if reached { Ok(()) } else { Err("timed out".to_owned()) } }
    }

    #[test]
    fn what_must_not_be_reached_is_worse_than_what_is_not() {
        let check = |denied, internet, level| {
            let results = [result(Trial::Internet4, internet), result(Trial::Denied4, denied)];
            assert_eq!(judge(&results, Vec::new).level, level);
        };
        check(false, true, Level::Ok);
        check(false, false, Level::Warning);
        check(true, true, Level::Missing);
    }
}
