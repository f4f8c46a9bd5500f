//! The packages a Debian host has installed, from its package manager's database.

use std::collections::HashMap;

/// One installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// With the architecture where the database needs it to tell packages apart.
    pub(crate) stem: String,
    /// Alternatives, of which one is needed, of each dependency.
    pub(crate) needs: Vec<Vec<String>>,
    pub(crate) provides: Vec<String>,
    /// No system works without it.
    pub(crate) basic: bool,
    /// Settings and the sum of what the package brought.
    pub(crate) settings: Vec<(String, String)>,
    /// As it stands in the database.
    pub(crate) stanza: String,
}

/// Reads the database. Packages of other architectures than the host's own are left out.
pub(crate) fn parse(status: &str) -> Vec<Package> {
    let stanzas =
        || status.split("\n\n").map(|stanza| stanza.trim_matches('\n')).filter(|stanza| !stanza.is_empty());
    let fields: Vec<(&str, HashMap<&str, String>)> =
        stanzas().map(|stanza| (stanza, fields(stanza))).filter(|(_, fields)| is_installed(fields)).collect();
    let native = fields
        .iter()
        .find(|(_, fields)| fields.get("Package").is_some_and(|name| name == "dpkg"))
        .and_then(|(_, fields)| fields.get("Architecture"))
        .cloned()
        .unwrap_or_default();
    fields.into_iter().filter_map(|(stanza, fields)| package(stanza, &fields, &native)).collect()
}

fn package(stanza: &str, fields: &HashMap<&str, String>, native: &str) -> Option<Package> {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let name = field("Package");
    let architecture = field("Architecture");
    if name.is_empty() || (architecture != native && architecture != "all") {
        return None;
    }
    let per_architecture = field("Multi-Arch") == "same";
    let needs = [field("Pre-Depends"), field("Depends")];
    Some(Package {
        name: name.to_owned(),
        stem: if per_architecture { format!("{name}:{architecture}") } else { name.to_owned() },
        needs: needs
            .iter()
            .flat_map(|needs| needs.split(','))
            .map(|alternatives| alternatives.split('|').filter_map(bare_name).collect::<Vec<_>>())
            .filter(|alternatives| !alternatives.is_empty())
            .collect(),
        provides: field("Provides").split(',').filter_map(bare_name).collect(),
        basic: field("Essential") == "yes" || field("Priority") == "required",
        settings: field("Conffiles")
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                Some((words.next()?.to_owned(), words.next()?.to_owned()))
            })
            .collect(),
        stanza: stanza.to_owned(),
    })
}

fn is_installed(fields: &HashMap<&str, String>) -> bool {
    fields.get("Status").is_some_and(|status| status.split_whitespace().nth(2) == Some("installed"))
}

fn fields(stanza: &str) -> HashMap<&str, String> {
    let mut fields: HashMap<&str, String> = HashMap::new();
    let mut current = None;
    for line in stanza.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some(value) = current.and_then(|name| fields.get_mut(name)) {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.insert(name, value.trim().to_owned());
            current = Some(name);
        }
    }
    fields
}

/// `libc6:any (>= 2.36)` is `libc6`.
fn bare_name(dependency: &str) -> Option<String> {
    let name = dependency.split([' ', ':', '(', '[', '\n', '\t']).find(|word| !word.is_empty())?;
    Some(name.to_owned())
}
