//! Removing what earlier servers needed: roots that no name means and no workspace is laid over, roots that nobody
//! has finished unpacking, and programs of agents that no sandbox has mounted. Once, before the first create, so that nobody is about to use what
//! is taken away; roots are only renamed then, and removed while others work.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use emergent_host_disk::LayeredDisk;
use emergent_images::unpack::remove_leftovers;

use super::host::Host;
use super::record::Record;

/// A root that is younger may be getting its name right now, by `emergent image build`.
const SETTLED: Duration = Duration::from_secs(3600);

/// What a root is called that is being removed.
const LEAVING: &str = ".leaving";

impl Host {
    /// What cannot be removed stays for the next server.
    pub(super) async fn tidy(&self) {
        let (layout, agent) = (self.layout.clone(), self.agent.folder());
        let roots = layout.images().join("roots");
        let decided = tokio::task::spawn_blocking(move || {
            let ids = layout.ids()?.into_iter();
            let mut used: BTreeSet<String> =
                ids.filter_map(|id| Record::load(&layout.sandbox(id))).map(|record| record.image).collect();
            // After the workspaces: one that has gone meanwhile has left its copy already.
            used.extend(layout.snapshots().images()?);
            remove_agents(&layout.agents(), &agent)?;
            set_roots_aside(&layout.images(), &used)
        });
        match decided.await {
            Ok(Ok(leaving)) => {
                tokio::task::spawn_blocking(move || {
                    match remove_leftovers(&roots) {
                        Ok(unfinished) => unfinished.iter().for_each(|root| {
                            tracing::info!("removed {}, which nobody had finished unpacking", root.display());
                        }),
                        Err(error) => tracing::warn!("what was left half unpacked stays for now: {error}"),
                    }
                    for root in leaving {
                        match fs::remove_dir_all(&root) {
                            Ok(()) => tracing::info!("removed {}, which nothing uses", root.display()),
                            Err(error) => tracing::warn!("{} stays for now: {error}", root.display()),
                        }
                    }
                });
            }
            Ok(Err(error)) => tracing::warn!("what is left of old images stays for now: {error}"),
            Err(panic) => tracing::error!("the task that tidies up has died: {panic}"),
        }
    }
}

/// Renames the roots that can go; returns those, and what an earlier server did not get to.
fn set_roots_aside(images: &Path, used: &BTreeSet<String>) -> io::Result<Vec<PathBuf>> {
    let mut kept = used.clone();
    for name in entries(&images.join("names"))? {
        kept.insert(fs::read_to_string(name)?);
    }
    let mut leaving = Vec::new();
    for root in entries(&images.join("roots"))? {
        let Some(name) = root.file_name().and_then(|name| name.to_str()) else { continue };
        if name.ends_with(LEAVING) {
            leaving.push(root);
            continue;
        }
        let is_root = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_root || kept.contains(name) || !is_settled(&root)? {
            continue;
        }
        if LayeredDisk::is_lower_layer(&root).map_err(io::Error::other)? {
            continue;
        }
        let aside = root.with_file_name(format!("{name}{LEAVING}"));
        fs::rename(&root, &aside)?;
        leaving.push(aside);
    }
    Ok(leaving)
}

/// By when the kernel last touched it: an archive says of a root when it was changed.
fn is_settled(root: &Path) -> io::Result<bool> {
    let touched = u64::try_from(fs::symlink_metadata(root)?.ctime()).unwrap_or(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(now.saturating_sub(Duration::from_secs(touched)) > SETTLED)
}

/// Programs of other agents, unless a sandbox of theirs still runs.
fn remove_agents(agents: &Path, current: &Path) -> io::Result<()> {
    let mounted = fs::read_to_string("/proc/self/mountinfo")?;
    for folder in entries(agents)? {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        // What a mount shows is named from the root of its own file system.
        let is_mounted = mounted
            .lines()
            .filter_map(|line| line.split(' ').nth(3))
            .any(|shown| shown.ends_with(&format!("/agents/{name}")));
        if folder != current && !is_mounted {
            fs::remove_dir_all(&folder)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_earlier_agents_go() {
        let agents = tempfile::tempdir().unwrap();
        let (current, old) = (agents.path().join("new"), agents.path().join("old"));
        for folder in [&current, &old] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("emergent-agent"), "x").unwrap();
        }
        remove_agents(agents.path(), &current).unwrap();
        assert!(current.join("emergent-agent").is_file() && !old.exists());
        remove_agents(&agents.path().join("nowhere"), &current).unwrap();
    }

    #[test]
    fn what_is_new_named_used_or_no_root_stays() {
        let images = tempfile::tempdir().unwrap();
        let (named, used, new) = ("a".repeat(32), "b".repeat(32), "c".repeat(32));
        let leaving = format!("{}{LEAVING}", "d".repeat(32));
        fs::create_dir_all(images.path().join("names")).unwrap();
        fs::write(images.path().join("names/x"), &named).unwrap();
        for name in [&named, &used, &new, &leaving, "empty"] {
            fs::create_dir_all(images.path().join("roots").join(name)).unwrap();
        }
        let gone = set_roots_aside(images.path(), &BTreeSet::from([used])).unwrap();
        assert_eq!(gone, [images.path().join("roots").join(&leaving)]);
        assert!(images.path().join("roots").join(&new).is_dir());
    }
}
