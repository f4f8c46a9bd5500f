//! Names. Everything this crate makes outside its own process has a name that is computed
//! here from the installation's and the workspace's id, and from nothing else.

use emergent_types::{InstallationId, WorkspaceId};

/// The beginning of every installation's links.
pub(crate) const ANY_LINK: &str = "emg";

/// The beginning of the names of an installation's links. A link's name has 15 characters:
/// three that are always the same, four of the installation, eight of the workspace.
pub fn link_prefix(installation: InstallationId) -> String {
    let short = installation.short();
    format!("{ANY_LINK}{}", &short[short.len() - 4..])
}

/// The host's end of a workspace's pair. Digits from the random end of the id: the front of a
/// version 7 UUID is a clock.
pub fn link_name(installation: InstallationId, workspace: WorkspaceId) -> String {
    let hex = workspace.as_uuid().simple().to_string();
    format!("{}{}", link_prefix(installation), &hex[hex.len() - 8..])
}

/// The installation's table of rules, in the family `inet`.
pub fn table_name(installation: InstallationId) -> String {
    format!("emergent_{}", installation.short())
}

/// By which rules of ours in chains of others are known.
pub fn rule_comment(installation: InstallationId) -> String {
    format!("emergent-{installation}")
}

/// The bridge to which an installation's containers are connected. Like all links of ours it
/// begins with the same three letters; what follows is not hexadecimal, so that it is never
/// taken for a workspace's link.
pub fn bridge_link_name(installation: InstallationId) -> String {
    format!("{ANY_LINK}br{}", installation.short())
}

/// The tables of the bridge's rules, in the families `inet` and `bridge`.
pub fn bridge_table_name(installation: InstallationId) -> String {
    format!("{}_bridge", table_name(installation))
}

/// By which rules for the bridge in chains of others are known.
pub fn bridge_rule_comment(installation: InstallationId) -> String {
    format!("{}-bridge", rule_comment(installation))
}

/// What a link says about itself in full. The number is that of the sandbox's address: a link that
/// is down has no route by which it could be told.
pub(crate) fn link_alias(installation: InstallationId, workspace: WorkspaceId, number: u32) -> String {
    format!("emergent {installation} {workspace} {number}")
}

/// Whose link it is, by its alias.
pub(crate) fn workspace_of(alias: &str, installation: InstallationId) -> Option<WorkspaceId> {
    words_of(alias, installation)?.next()?.parse().ok()
}

/// The number of its sandbox's address, by its alias.
pub(crate) fn number_of(alias: &str, installation: InstallationId) -> Option<u32> {
    words_of(alias, installation)?.nth(1)?.parse().ok()
}

fn words_of(alias: &str, installation: InstallationId) -> Option<std::str::Split<'_, char>> {
    Some(alias.strip_prefix(&format!("emergent {installation} "))?.split(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_is_no_sandboxs_link() {
        let installation = InstallationId::generate();
        let bridge = bridge_link_name(installation);
        assert!(bridge.len() <= 15 && bridge.contains(&installation.short()), "{bridge}");
        let digits = bridge.strip_prefix(ANY_LINK).unwrap();
        assert!(!digits[..4].bytes().all(|digit| digit.is_ascii_hexdigit()), "{bridge}");
    }

    #[test]
    fn names_fit_and_lead_back() {
        let (installation, workspace) = (InstallationId::generate(), WorkspaceId::generate());
        let name = link_name(installation, workspace);
        assert_eq!(name.len(), 15);
        assert!(name.starts_with(&link_prefix(installation)));
        let alias = link_alias(installation, workspace, 7);
        assert_eq!(workspace_of(&alias, installation), Some(workspace));
        assert_eq!(number_of(&alias, installation), Some(7));
        // As an earlier server wrote it.
        let short = alias.strip_suffix(" 7").unwrap();
        assert_eq!(workspace_of(short, installation), Some(workspace));
        assert_eq!(number_of(short, installation), None);
        assert_eq!(workspace_of(&alias, InstallationId::generate()), None);
        assert_eq!(workspace_of("", installation), None);
    }
}
