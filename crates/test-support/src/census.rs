//! What sandboxes leave behind outside the server's process.
//!
//! A census is taken before and after; the difference must be nothing. It looks at the
//! machine, not at what the server says about it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use emergent_types::InstallationId;

use crate::sandbox::{pids, read};

/// Whose traces to look for.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Those of every installation on this machine.
    Machine,
    /// Those of one installation. Suites that run beside each other do not count each other.
    Installation {
        /// Carried by everything it makes.
        id: InstallationId,
        /// Its folder.
        data_dir: PathBuf,
    },
}

/// What was found, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Processes in control groups of ours, and launch helpers.
    pub processes: BTreeSet<String>,
    /// Mounts of anything in a data folder.
    pub mounts: BTreeSet<String>,
    /// Control groups.
    pub control_groups: BTreeSet<String>,
    /// Named network namespaces.
    pub network_namespaces: BTreeSet<String>,
    /// Network links.
    pub links: BTreeSet<String>,
    /// Loop devices on files in a data folder.
    pub loop_devices: BTreeSet<String>,
    /// Firewall tables, and rules in those of others, where there is an `nft` to ask.
    pub firewall_tables: BTreeSet<String>,
    /// Folders of sandboxes.
    pub state_folders: BTreeSet<String>,
    /// Folders of copies of their disks.
    pub snapshots: BTreeSet<String>,
}

impl Census {
    /// Looks at the machine now.
    pub fn take(scope: &Scope) -> Self {
        Self {
            processes: processes(scope),
            mounts: mounts(scope),
            control_groups: control_groups(scope),
            network_namespaces: names("/run/netns", scope),
            links: links(scope),
            loop_devices: loop_devices(scope),
            firewall_tables: firewall_tables(scope),
            state_folders: state_folders(scope),
            snapshots: snapshots(scope),
        }
    }

    /// What is there now and was not there before.
    pub fn since(&self, before: &Self) -> Self {
        let added =
            |now: &BTreeSet<String>, before: &BTreeSet<String>| now.difference(before).cloned().collect();
        Self {
            processes: added(&self.processes, &before.processes),
            mounts: added(&self.mounts, &before.mounts),
            control_groups: added(&self.control_groups, &before.control_groups),
            network_namespaces: added(&self.network_namespaces, &before.network_namespaces),
            links: added(&self.links, &before.links),
            loop_devices: added(&self.loop_devices, &before.loop_devices),
            firewall_tables: added(&self.firewall_tables, &before.firewall_tables),
            state_folders: added(&self.state_folders, &before.state_folders),
            snapshots: added(&self.snapshots, &before.snapshots),
        }
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn kinds(&self) -> [(&'static str, &BTreeSet<String>); 9] {
        [
            ("processes", &self.processes),
            ("mounts", &self.mounts),
            ("control groups", &self.control_groups),
            ("network namespaces", &self.network_namespaces),
            ("links", &self.links),
            ("loop devices", &self.loop_devices),
            ("firewall tables", &self.firewall_tables),
            ("state folders", &self.state_folders),
            ("snapshots", &self.snapshots),
        ]
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, found) in self.kinds().into_iter().filter(|(_, found)| !found.is_empty()) {
            writeln!(f, "{} {kind}:", found.len())?;
            for one in found {
                writeln!(f, "  {one}")?;
            }
        }
        Ok(())
    }
}

impl Scope {
    /// The beginning of every name outside a data folder.
    fn prefix(&self) -> String {
        match self {
            Self::Machine => "emergent-".to_owned(),
            Self::Installation { id, .. } => format!("emergent-{}", id.short()),
        }
    }

    /// Whether a path of the host lies in a data folder.
    fn holds(&self, path: &str) -> bool {
        match self {
            // What a data folder looks like from outside.
            Self::Machine => path.contains("/local/") && path.contains("/disk.img"),
            Self::Installation { data_dir, .. } => path.contains(&*data_dir.to_string_lossy()),
        }
    }
}

fn processes(scope: &Scope) -> BTreeSet<String> {
    let group = format!("/{}", scope.prefix());
    let is_ours = |pid: &i32| {
        let helper = match scope {
            Scope::Machine => "__local-sandbox".to_owned(),
            Scope::Installation { id, .. } => format!("--installation\0{id}"),
        };
        read(*pid, "cgroup").contains(&group) || read(*pid, "cmdline").contains(&helper)
    };
    pids().filter(is_ours).map(|pid| format!("{pid} {}", read(pid, "cmdline").replace('\0', " "))).collect()
}

fn mounts(scope: &Scope) -> BTreeSet<String> {
    // Of this thread: a test may have mounts of its own.
    let own = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    own.lines().filter(|line| scope.holds(line)).map(str::to_owned).collect()
}

fn control_groups(scope: &Scope) -> BTreeSet<String> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = folders(root).into_iter().chain([root.to_owned()]);
    let groups = hierarchies.flat_map(|hierarchy| folders(&hierarchy));
    groups
        .filter(|group| starts_with(group, &scope.prefix()))
        .flat_map(|group| with_children(&group))
        .collect()
}

fn with_children(group: &Path) -> Vec<String> {
    let children = folders(group).into_iter().flat_map(|child| with_children(&child));
    children.chain([group.display().to_string()]).collect()
}

fn names(folder: &str, scope: &Scope) -> BTreeSet<String> {
    let short = match scope {
        Scope::Machine => "em-".to_owned(),
        Scope::Installation { id, .. } => id.short(),
    };
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.contains(&short))
        .collect()
}

/// Named `emg`, four digits of the installation and eight of the workspace.
fn links(scope: &Scope) -> BTreeSet<String> {
    let prefix = match scope {
        Scope::Machine => "emg".to_owned(),
        Scope::Installation { id, .. } => format!("emg{}", &id.short()[4..]),
    };
    let names = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&prefix) && name.len() == 15)
        .collect()
}

fn loop_devices(scope: &Scope) -> BTreeSet<String> {
    let describe = |device: PathBuf| {
        let file = fs::read_to_string(device.join("loop/backing_file")).ok()?;
        scope.holds(&file).then(|| format!("{} on {}", device.display(), file.trim()))
    };
    folders(Path::new("/sys/block")).into_iter().filter_map(describe).collect()
}

fn firewall_tables(scope: &Scope) -> BTreeSet<String> {
    // A machine without it has no tables of ours either: whoever makes them needs it.
    let Ok(output) = Command::new("nft").args(["list", "tables"]).output() else { return BTreeSet::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    let marker = match scope {
        Scope::Machine => "emergent".to_owned(),
        Scope::Installation { id, .. } => id.short(),
    };
    let tables = text.lines().filter(|line| line.contains(&marker)).map(str::to_owned);
    tables.chain(foreign_chains(scope)).collect()
}

/// Rules of ours in chains of Docker's and others.
fn foreign_chains(scope: &Scope) -> Vec<String> {
    let marker = match scope {
        Scope::Machine => "--comment emergent-".to_owned(),
        Scope::Installation { id, .. } => format!("--comment emergent-{id}"),
    };
    ["iptables", "ip6tables"]
        .iter()
        .filter_map(|program| Command::new(program).arg("-S").output().ok())
        .flat_map(|output| {
            let text = String::from_utf8_lossy(&output.stdout).replace('"', "");
            text.lines().filter(|line| line.contains(&marker)).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// What each provider has of its sandboxes, below a data folder.
const OF_SANDBOXES: [&str; 4] = ["local", "containers/gvisor", "containers/docker", "direct/sandboxes"];

/// What each provider has of copies.
const OF_SNAPSHOTS: [&str; 4] =
    ["local/snapshots", "containers/snapshots/gvisor", "containers/snapshots/docker", "direct/snapshots"];

fn state_folders(scope: &Scope) -> BTreeSet<String> {
    let is_of_one =
        |path: &PathBuf| path.file_name().is_none_or(|name| name != "templates" && name != "snapshots");
    below(scope, OF_SANDBOXES).filter(is_of_one).map(|path| path.display().to_string()).collect()
}

/// Folders of copies.
fn snapshots(scope: &Scope) -> BTreeSet<String> {
    below(scope, OF_SNAPSHOTS).map(|path| path.display().to_string()).collect()
}

/// The folders in these folders of one installation's.
fn below<const N: usize>(scope: &Scope, places: [&'static str; N]) -> impl Iterator<Item = PathBuf> {
    let data_dir = match scope {
        Scope::Installation { data_dir, .. } => Some(data_dir.clone()),
        Scope::Machine => None,
    };
    data_dir.into_iter().flat_map(move |folder| places.map(|place| folders(&folder.join(place)))).flatten()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).collect()
}

fn starts_with(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_what_was_added() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let before = Census { links: set(&["a"]), ..Census::default() };
        let after = Census { links: set(&["a", "b"]), mounts: set(&["m"]), ..Census::default() };
        let added = after.since(&before);
        assert_eq!(added, Census { links: set(&["b"]), mounts: set(&["m"]), ..Census::default() });
        assert_eq!(added.to_string(), "1 mounts:\n  m\n1 links:\n  b\n");
        assert!(before.since(&after).is_empty());
    }

    #[test]
    fn an_installation_that_never_was_has_left_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let scope =
            Scope::Installation { id: InstallationId::generate(), data_dir: folder.path().to_owned() };
        let census = Census::take(&scope);
        assert!(census.is_empty(), "{census}");
    }
}
