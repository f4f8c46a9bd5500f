//! Who may unpack packages: root, or an account that has others to itself.

use std::fs;

use anyhow::bail;

/// Where such accounts are written down, by name or number.
const RANGES: &str = "/etc/subuid";

/// Refuses where the programs would fail after a while with less to say.
pub(super) fn check() -> anyhow::Result<()> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return Ok(());
    }
    let number = user.as_raw().to_string();
    let name = std::env::var("USER").unwrap_or_default();
    if has_range(&fs::read_to_string(RANGES).unwrap_or_default(), &[&number, &name]) {
        return Ok(());
    }
    bail!(
        "packages are unpacked with owners of their own, which takes root, or a range of accounts for this one in \
         {RANGES} and /etc/subgid"
    )
}

fn has_range(table: &str, names: &[&str]) -> bool {
    let owners = table.lines().filter_map(|line| line.split_once(':')).map(|(owner, _)| owner.trim());
    owners.into_iter().any(|owner| !owner.is_empty() && names.contains(&owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_by_name_or_number() {
        let table = "ann:100000:65536\n1001:165536:65536\n:1:1\n";
        let check = |names: &[&str], expect| assert_eq!(has_range(table, names), expect, "{names:?}");
        check(&["1000", "ann"], true);
        check(&["1001", ""], true);
        check(&["1002", "bob"], false);
        check(&["1002", ""], false);
    }
}
