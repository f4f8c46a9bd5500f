//! Control groups: how limits are set, and how everything that belongs to a sandbox is found.
//!
//! Every sandbox has one group named after it, with two groups below it:
//!
//! - `launch` holds the launch helper from before it starts anything, so that whatever a
//!   `kill -9` leaves behind is found by path;
//! - `sandbox` holds the sandbox itself and carries the limits. It is separate because
//!   `libcontainer` kills everything in its group when a launch fails, and that must not be
//!   the helper that is to report it.

mod adjust;
mod usage;
mod v1;
mod v2;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::process::ProcessHandle;

pub(crate) use v1::V1;
pub(crate) use v2::V2;

/// The group of the launch helper, below a sandbox's own.
pub(crate) const LAUNCH: &str = "launch";
/// The group of the sandbox's processes, below a sandbox's own.
pub(crate) const SANDBOX: &str = "sandbox";

/// Where control groups are mounted; `libcontainer` looks nowhere else.
pub(crate) const ROOT: &str = "/sys/fs/cgroup";

/// The control groups of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cgroups {
    /// One hierarchy per controller.
    V1(V1),
    /// One hierarchy for all.
    V2(V2),
    /// None that could be used. Nothing is limited, and nothing is found by its group.
    None,
}

/// What limits something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// The number of processes.
    Pids,
}

impl Controller {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

impl std::fmt::Display for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the kernel counts what a group has in swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swap {
    /// One limit for memory and swap.
    CountedWithMemory,
    /// A limit of its own.
    CountedApart,
    /// Not at all, or there is no swap.
    NotCounted,
}

/// A part of a sandbox's own group that it may look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupView {
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
}

impl Cgroups {
    /// Looks at what is mounted.
    pub(crate) fn detect() -> io::Result<Self> {
        Ok(Self::from_mountinfo(&fs::read_to_string("/proc/self/mountinfo")?))
    }

    pub(crate) fn from_mountinfo(text: &str) -> Self {
        let mounts: Vec<CgroupMount> = text.lines().filter_map(CgroupMount::parse).collect();
        if let Some(unified) = mounts.iter().find(|mount| mount.unified && mount.point == Path::new(ROOT)) {
            return Self::V2(V2::new(unified.point.clone()));
        }
        V1::from_mounts(mounts).map_or(Self::None, Self::V1)
    }

    /// As on a host that lacks these.
    pub(crate) fn without(mut self, controllers: &[Controller]) -> Self {
        let names: Vec<&str> = controllers.iter().map(|controller| controller.as_str()).collect();
        match &mut self {
            Self::V1(v1) => v1.withhold(&names),
            Self::V2(v2) => v2.withhold(&names),
            Self::None => {}
        }
        self
    }

    /// Whether sandboxes can be limited by this controller.
    pub(crate) fn has(&self, controller: Controller) -> bool {
        match self {
            Self::V1(v1) => v1.has(controller.as_str()),
            Self::V2(v2) => v2.has(controller.as_str()),
            Self::None => false,
        }
    }

    /// What `libcontainer` cannot do without and is not there.
    pub(crate) fn unusable(&self) -> Option<&'static str> {
        match self {
            Self::V1(v1) => (!v1.has("devices")).then_some("the controller \"devices\" is missing"),
            Self::V2(_) => None,
            Self::None => Some("they are not mounted at /sys/fs/cgroup"),
        }
    }

    /// Moves a process into a sandbox's launch group, which is made if need be.
    pub(crate) fn move_to_launch_group(&self, group: &str, pid: u32) -> io::Result<()> {
        for root in self.tracking_roots() {
            let launch = root.join(group).join(LAUNCH);
            fs::create_dir_all(&launch).map_err(|error| at(&launch, error))?;
            let procs = launch.join("cgroup.procs");
            fs::write(&procs, pid.to_string()).map_err(|error| at(&procs, error))?;
        }
        Ok(())
    }

    /// Kills every process in a group and the groups below it, and waits until they have
    /// ended. A group that is not there is success.
    pub(crate) fn kill_everything(&self, group: &str, deadline: Instant) -> io::Result<()> {
        let Some(folder) = self.roster().map(|roster| roster.join(group)) else { return Ok(()) };
        if let Self::V2(_) = self {
            // One write that no fork can outrun; older kernels do not have it.
            let _ = fs::write(folder.join("cgroup.kill"), "1");
        }
        let mut pause = Duration::from_micros(200);
        loop {
            let pids = pids_below(&folder)?;
            if pids.is_empty() {
                return Ok(());
            }
            for pid in &pids {
                kill_member(*pid, group)?;
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{} processes of {} do not end", pids.len(), folder.display()),
                ));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Whether there is such a group in any hierarchy.
    pub(crate) fn exists(&self, group: &str) -> bool {
        self.roots().iter().any(|root| root.join(group).exists())
    }

    /// Whether any process is in a group or the groups below it.
    pub(crate) fn is_populated(&self, group: &str) -> bool {
        let pids = self.roster().map(|roster| pids_below(&roster.join(group)));
        pids.is_some_and(|pids| pids.is_ok_and(|pids| !pids.is_empty()))
    }

    /// Removes an empty group in every hierarchy. A group that is not there is success.
    pub(crate) fn remove(&self, group: &str, deadline: Instant) -> io::Result<()> {
        for root in self.roots() {
            remove_tree(&root.join(group), deadline)?;
        }
        Ok(())
    }

    /// Removes the group of an installation where it holds no sandbox any more.
    pub(crate) fn remove_if_empty(&self, installation_group: &str) {
        for root in self.roots() {
            let _ = fs::remove_dir(root.join(installation_group));
        }
    }

    /// The names of all groups below an installation's group, in any hierarchy.
    pub(crate) fn names_below(&self, installation_group: &str) -> BTreeSet<String> {
        self.roots()
            .into_iter()
            .filter_map(|root| fs::read_dir(root.join(installation_group)).ok())
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// What a sandbox is shown of its own group, read-only: memory events tell the agent that
    /// a process was killed for want of memory.
    pub(crate) fn views(&self, group: &str) -> Vec<GroupView> {
        match self {
            Self::V1(v1) => v1.views(group),
            Self::V2(v2) => v2.views(group),
            Self::None => Vec::new(),
        }
    }

    /// How swap is counted here.
    pub(crate) fn swap(&self) -> Swap {
        match self {
            Self::V1(v1) => v1.swap(),
            Self::V2(v2) => v2.swap(),
            Self::None => Swap::NotCounted,
        }
    }

    /// The hierarchy in which every process of a sandbox is, from its first moment.
    fn roster(&self) -> Option<&Path> {
        match self {
            Self::V1(v1) => Some(v1.roster()),
            Self::V2(v2) => Some(v2.root()),
            Self::None => None,
        }
    }

    /// The hierarchies that say where a process belongs, and limit nothing.
    fn tracking_roots(&self) -> Vec<&Path> {
        match self {
            Self::V1(v1) => v1.tracking_roots(),
            Self::V2(v2) => vec![v2.root()],
            Self::None => Vec::new(),
        }
    }

    fn roots(&self) -> Vec<&Path> {
        match self {
            Self::V1(v1) => v1.roots(),
            Self::V2(v2) => vec![v2.root()],
            Self::None => Vec::new(),
        }
    }
}

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CgroupMount {
    point: PathBuf,
    unified: bool,
    controllers: Vec<String>,
}

impl CgroupMount {
    /// Reads one line of `mountinfo`: id, parent, device, root, mount point, options, tags…,
    /// `-`, type, source, super options.
    fn parse(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let point = PathBuf::from(front.split(' ').nth(4)?);
        let mut back = back.split(' ');
        let unified = match back.next()? {
            "cgroup" => false,
            "cgroup2" => true,
            _ => return None,
        };
        let controllers =
            back.nth(1)?.split(',').filter(|option| *option != "rw").map(str::to_owned).collect();
        point.starts_with(ROOT).then_some(Self { point, unified, controllers })
    }
}

/// Kills a process if it really is in the group: its id was read a moment ago and may be
/// someone else's by now.
fn kill_member(pid: i32, group: &str) -> io::Result<()> {
    let Some(process) = ProcessHandle::of_pid(pid) else { return Ok(()) };
    let Ok(membership) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { return Ok(()) };
    let inside = format!("/{group}/");
    if membership.lines().any(|line| line.contains(&inside)) { process.kill() } else { Ok(()) }
}

/// Every process in the group and below. Those of another PID namespace read as 0 and cannot
/// be ours.
fn pids_below(folder: &Path) -> io::Result<Vec<i32>> {
    let text = match fs::read_to_string(folder.join("cgroup.procs")) {
        Ok(text) => text,
        // Not there, or removed while being read.
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(at(folder, error)),
    };
    let mut pids: Vec<i32> =
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect();
    for below in groups_in(folder)? {
        pids.extend(pids_below(&below)?);
    }
    Ok(pids)
}

fn groups_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(at(folder, error)),
    };
    Ok(entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect())
}

fn remove_tree(folder: &Path, deadline: Instant) -> io::Result<()> {
    for below in groups_in(folder)? {
        remove_tree(&below, deadline)?;
    }
    let mut pause = Duration::from_micros(200);
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if is_gone(&error) => return Ok(()),
            // A process that has just ended is still counted for a moment.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Err(error) => return Err(at(folder, error)),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(point: &str, kind: &str, options: &str) -> String {
        format!("30 20 0:26 / {point} rw,nosuid shared:9 - {kind} cgroup rw,{options}")
    }

    #[test]
    fn one_hierarchy_for_all() {
        let text = [line("/", "ext4", "x"), line("/sys/fs/cgroup", "cgroup2", "nsdelegate")].join("\n");
        assert_eq!(Cgroups::from_mountinfo(&text), Cgroups::V2(V2::new(ROOT.into())));
    }

    #[test]
    fn one_hierarchy_per_controller() {
        let text = [
            line("/sys/fs/cgroup", "tmpfs", "mode=755"),
            line("/sys/fs/cgroup/unified", "cgroup2", "nsdelegate"),
            line("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct"),
            line("/sys/fs/cgroup/memory", "cgroup", "memory"),
            line("/sys/fs/cgroup/pids", "cgroup", "pids"),
            line("/sys/fs/cgroup/systemd", "cgroup", "xattr,name=systemd"),
        ];
        let Cgroups::V1(v1) = Cgroups::from_mountinfo(&text.join("\n")) else { panic!("not v1") };
        let found = Cgroups::V1(v1.clone());
        assert!(
            [Controller::Cpu, Controller::Memory, Controller::Pids]
                .into_iter()
                .all(|controller| found.has(controller))
        );
        assert!(!found.clone().without(&[Controller::Memory]).has(Controller::Memory));
        assert!(found.unusable().is_some_and(|why| why.contains("devices")));
        assert_eq!(v1.roster(), Path::new("/sys/fs/cgroup/pids"));
        assert_eq!(
            v1.tracking_roots(),
            ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"].map(Path::new)
        );
        let views: Vec<_> = v1.views("a/b").into_iter().map(|view| view.destination).collect();
        assert!(views.contains(&PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")), "{views:?}");
    }

    /// The real thing, as far as a host without controllers in this hierarchy has it.
    fn unified_hierarchy() -> Option<Cgroups> {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = text.lines().filter_map(CgroupMount::parse).find(|mount| mount.unified)?;
        Some(Cgroups::V2(V2::new(mount.point)))
    }

    /// A group in every layout this host has is filled, emptied and removed. Needs root.
    #[test]
    fn whatever_is_in_a_group_is_ended_and_the_group_removed() {
        let detected = Cgroups::detect().unwrap();
        assert_ne!(detected, Cgroups::None, "control groups are not mounted");
        let layouts: Vec<Cgroups> = [detected].into_iter().chain(unified_hierarchy()).collect();
        for cgroups in layouts {
            let parent = format!("emergent-unit-{}", std::process::id());
            let group = format!("{parent}/one");
            let soon = || Instant::now() + Duration::from_secs(10);
            // Nothing there yet is as good as nothing there any more.
            cgroups.kill_everything(&group, soon()).unwrap();
            cgroups.remove(&group, soon()).unwrap();

            let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            cgroups.move_to_launch_group(&group, sleeper.id()).unwrap();
            assert!(cgroups.exists(&group) && cgroups.is_populated(&group));
            assert_eq!(cgroups.names_below(&parent), BTreeSet::from(["one".to_owned()]));

            let reaping = std::thread::spawn(move || sleeper.wait().unwrap());
            cgroups.kill_everything(&group, soon()).unwrap();
            assert!(!reaping.join().unwrap().success());
            cgroups.remove(&group, soon()).unwrap();
            cgroups.remove_if_empty(&parent);
            assert!(!cgroups.exists(&parent));
        }
    }

    #[test]
    fn any_hierarchy_tells_who_is_there() {
        let memory_alone = Cgroups::from_mountinfo(&line("/sys/fs/cgroup/memory", "cgroup", "memory"));
        assert_eq!(memory_alone.roster(), Some(Path::new("/sys/fs/cgroup/memory")));
        assert!(memory_alone.has(Controller::Memory) && !memory_alone.has(Controller::Pids));
        assert_eq!(Cgroups::from_mountinfo(""), Cgroups::None);
    }
}
