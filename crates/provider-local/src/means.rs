//! What this host lets the provider use, and so what it can promise.
//!
//! | | with root | without |
//! |---|---|---|
//! | started by | `libcontainer` | a small launcher of our own, on user namespaces |
//! | disk | an ext4 file; a folder where `mkfs.ext4` or loop devices are missing | a folder |
//! | processor, memory | control groups, each as far as the host has it | not limited |
//! | processes | control groups | a resource limit of the user namespace, since Linux 5.14 |
//! | accounts inside | 65,536 | root alone |

use std::fs::File;

use emergent_host_disk::find_mkfs;
use emergent_types::{DiskEnforcement, Enforcement, LimitEnforcement};
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use crate::cgroup::{Cgroups, Controller};
use crate::options::Withheld;

/// Who starts a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Launcher {
    /// `libcontainer`, as root.
    #[default]
    Root,
    /// Our own, as whoever runs the server.
    Unprivileged,
}

impl Launcher {
    /// What this process can do.
    pub(crate) fn of_this_process() -> Self {
        let privileged = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
        // Root without its powers is an account like any other, but for the files that are
        // root's: a sandbox must not be that account.
        if rustix::process::geteuid().is_root() || privileged { Self::Root } else { Self::Unprivileged }
    }

    /// Whom a sandbox has inside.
    pub(crate) fn accounts(self) -> Accounts {
        match self {
            Self::Root => Accounts::Many,
            Self::Unprivileged => Accounts::RootAlone,
        }
    }
}

/// Whom a sandbox has inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounts {
    /// Any of 65,536.
    Many,
    /// One.
    RootAlone,
}

/// What a disk is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DiskKind {
    /// A file with a file system of its own.
    #[default]
    Image,
    /// A folder of the host's file system.
    Folder,
}

impl DiskKind {
    /// How its limit is upheld.
    pub(crate) fn enforcement(self) -> DiskEnforcement {
        match self {
            Self::Image => DiskEnforcement::Hard,
            Self::Folder => DiskEnforcement::Monitored,
        }
    }
}

/// What new sandboxes are made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Means {
    pub(crate) launcher: Launcher,
    pub(crate) disk: DiskKind,
    pub(crate) cgroups: Cgroups,
}

impl Means {
    /// Looks at this host.
    pub(crate) fn detect(withheld: &Withheld) -> std::io::Result<Self> {
        let launcher = Launcher::of_this_process();
        Ok(match launcher {
            Launcher::Root => Self {
                launcher,
                disk: if withheld.disk_images || why_no_images().is_some() {
                    DiskKind::Folder
                } else {
                    DiskKind::Image
                },
                cgroups: Cgroups::detect()?.without(&withheld.controllers),
            },
            // Groups that were delegated to this account would limit too, but only where the
            // server has a whole group to itself, which nobody promises.
            Launcher::Unprivileged => Self { launcher, disk: DiskKind::Folder, cgroups: Cgroups::None },
        })
    }

    /// Per limit: enforced or not.
    pub(crate) fn limits(&self) -> LimitEnforcement {
        let if_so = |so| if so { Enforcement::Enforced } else { Enforcement::NotEnforced };
        let by_group = |controller| if_so(self.cgroups.has(controller));
        let without_root = self.launcher == Launcher::Unprivileged;
        LimitEnforcement {
            cpu: by_group(Controller::Cpu),
            memory: by_group(Controller::Memory),
            pids: if without_root {
                if_so(counts_processes_per_namespace())
            } else {
                by_group(Controller::Pids)
            },
            disk: self.disk.enforcement(),
        }
    }

    /// Why a limit that is kept by control groups is not.
    pub(crate) fn why_no_group(&self, controller: Controller) -> String {
        match self.launcher {
            Launcher::Unprivileged => "the server does not run as root".to_owned(),
            Launcher::Root => format!("this host has no control group controller \"{controller}\""),
        }
    }

    /// Why a disk is a folder.
    pub(crate) fn why_folder(&self) -> String {
        match self.launcher {
            Launcher::Unprivileged => "the server does not run as root".to_owned(),
            Launcher::Root => why_no_images().unwrap_or_else(|| "disk files are switched off".to_owned()),
        }
    }
}

/// Why a disk cannot be a file with a file system of its own, and what to do about it.
pub(crate) fn why_no_images() -> Option<String> {
    if find_mkfs().is_none() {
        return Some("mkfs.ext4 is not installed (package e2fsprogs)".to_owned());
    }
    File::options().read(true).write(true).open("/dev/loop-control").err().map(|error| {
        format!("/dev/loop-control cannot be opened ({error}); `modprobe loop` brings loop devices")
    })
}

/// Whether the kernel counts the processes of a user namespace apart, so that a resource limit
/// bounds one sandbox and not everything its account runs.
pub(crate) fn counts_processes_per_namespace() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    version(&release).is_some_and(|version| version >= (5, 14))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_what_there_is() {
        let check = |means: Means, expect: [Enforcement; 2], disk| {
            let limits = means.limits();
            assert_eq!(([limits.cpu, limits.memory], limits.disk), (expect, disk), "{means:?}");
        };
        let (yes, no) = (Enforcement::Enforced, Enforcement::NotEnforced);
        let line = |name: &&str| format!("1 1 0:1 / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n");
        let groups = |names: &[&str]| {
            let text: String = names.iter().map(line).collect();
            Cgroups::from_mountinfo(&text)
        };
        let root = |cgroups, disk| Means { launcher: Launcher::Root, disk, cgroups };
        let all = || groups(&["cpu", "memory", "pids", "devices"]);
        check(root(all(), DiskKind::Image), [yes, yes], DiskEnforcement::Hard);
        check(root(all(), DiskKind::Folder), [yes, yes], DiskEnforcement::Monitored);
        let some = groups(&["cpu", "devices"]);
        check(root(some.clone(), DiskKind::Image), [yes, no], DiskEnforcement::Hard);
        assert_eq!(root(some, DiskKind::Image).limits().pids, no);
        let alone =
            Means { launcher: Launcher::Unprivileged, disk: DiskKind::Folder, cgroups: Cgroups::None };
        check(alone, [no, no], DiskEnforcement::Monitored);
    }

    #[test]
    fn versions() {
        assert_eq!(version("6.18.44-x"), Some((6, 18)));
        assert_eq!(version("5.14"), Some((5, 14)));
        assert_eq!(version("x"), None);
    }
}
