//! What the kernel must offer.

use std::fs;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::finding::Finding;

/// Idmapped mounts of ext4, by which a sandbox's disk is shifted to its own user ids.
const MIN_VERSION: (u32, u32) = (5, 12);

const NO_SANDBOX: &str = "the embedded provider cannot make sandboxes";

/// What it costs when a disk cannot be a file with a file system of its own.
pub(super) const NO_DISK_LIMIT: &str = "disks are folders: a limit is only watched (tools write nothing \
                                        more beyond it, programs can), and a request that names \
                                        one is refused";

pub(super) const AS_ROOT: &str = "start the server with sudo, or as a system service";

/// Enough for an editor, a build that watches and a few tool calls.
const INOTIFY_PER_WORKSPACE: u64 = 32;

/// Controllers without which a limit would not be upheld.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

pub(super) fn version() -> Finding {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    match parse_version(&release) {
        Some(version) if version >= MIN_VERSION => Finding::ok("kernel", format!("Linux {release}")),
        _ => Finding::missing(
            "kernel",
            format!("Linux {release}"),
            NO_SANDBOX,
            &format!("Linux {}.{} or later", MIN_VERSION.0, MIN_VERSION.1),
        ),
    }
}

fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether the server would be root here.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(super) fn root() -> Finding {
    let is_privileged = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    match (is_root(), is_privileged) {
        (true, true) => Finding::ok("root", "yes, with CAP_SYS_ADMIN"),
        (true, false) => Finding::missing(
            "root",
            "yes, but without CAP_SYS_ADMIN",
            NO_SANDBOX,
            "run it outside of a container, in a privileged one, or as an ordinary account",
        ),
        (false, _) => Finding::warning(
            "root",
            format!("no, user id {}", rustix::process::geteuid().as_raw()),
            "processor time and memory of workspaces are not limited, disk usage is only watched, root is the \
             only account in them, and a request that names such a limit is refused",
            AS_ROOT,
        ),
    }
}

pub(super) fn user_namespaces() -> Finding {
    let name = "user namespaces";
    let read = |switch: &str| fs::read_to_string(switch).ok().map(|text| text.trim().to_owned());
    let limit = read("/proc/sys/user/max_user_namespaces");
    let limit = match limit.and_then(|text| text.parse::<u64>().ok()) {
        None => {
            return Finding::missing(
                name,
                "this kernel has none",
                NO_SANDBOX,
                "a kernel with CONFIG_USER_NS",
            );
        }
        Some(0) => {
            let remedy = "sysctl -w user.max_user_namespaces=10000";
            return Finding::missing(name, "switched off", NO_SANDBOX, remedy);
        }
        Some(limit) => limit,
    };
    let for_root_only = [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ]
    .into_iter()
    .find(|(switch, closed, _)| {
        read(&format!("/proc/sys/{}", switch.replace('.', "/"))).as_deref() == Some(*closed)
    });
    match for_root_only {
        Some((switch, closed, open)) if !is_root() => Finding::missing(
            name,
            format!("for root only ({switch} = {closed})"),
            NO_SANDBOX,
            &format!("sysctl -w {switch}={open}, or start the server as root"),
        ),
        _ => Finding::ok(name, format!("up to {limit}")),
    }
}

pub(super) fn control_groups() -> Finding {
    let name = "control groups";
    let root = Path::new("/sys/fs/cgroup");
    if let Ok(unified) = fs::read_to_string(root.join("cgroup.controllers")) {
        let found: Vec<&str> = unified.split_whitespace().collect();
        return controllers(name, "version 2", |wanted| found.contains(&wanted));
    }
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if !mounted.lines().any(|line| line.contains(" - cgroup ")) {
        return Finding::missing(
            name,
            "not mounted at /sys/fs/cgroup",
            NO_SANDBOX,
            "mount -t cgroup2 none /sys/fs/cgroup",
        );
    }
    controllers(name, "version 1", |wanted| root.join(wanted).is_dir())
}

fn controllers(name: &'static str, version: &str, has: impl Fn(&str) -> bool) -> Finding {
    let missing: Vec<&str> = CONTROLLERS.into_iter().filter(|wanted| !has(wanted)).collect();
    if missing.is_empty() {
        return Finding::ok(name, format!("{version}, with {}", CONTROLLERS.join(", ")));
    }
    let missing = missing.join(", ");
    Finding::warning(
        name,
        format!("{version}, without {missing}"),
        &format!("workspaces are not limited in {missing}, and a request that names such a limit is refused"),
        "boot with these controllers enabled (cgroup_enable=memory where memory is missing)",
    )
}

pub(super) fn loop_devices() -> Finding {
    match fs::File::options().read(true).write(true).open("/dev/loop-control") {
        Ok(_) => Finding::ok("loop devices", "/dev/loop-control"),
        Err(error) => Finding::warning(
            "loop devices",
            format!("/dev/loop-control cannot be used ({error})"),
            NO_DISK_LIMIT,
            "modprobe loop; in a container, pass /dev/loop-control through",
        ),
    }
}

pub(super) fn ext4() -> Finding {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.trim_start_matches("nodev").trim() == "ext4") {
        return Finding::ok("ext4", "in the kernel");
    }
    if Path::new("/lib/modules").is_dir() {
        return Finding::ok("ext4", "not loaded yet; the first mount loads it");
    }
    Finding::missing(
        "ext4",
        "this kernel has none",
        "disks are ext4 files where mkfs.ext4 and loop devices are there, and none could be mounted",
        "modprobe ext4, or a kernel with CONFIG_EXT4_FS",
    )
}

/// Every watch in a workspace takes one of these, and so do editors, builds and servers that look
/// for changes. As root each workspace has an account's of its own; without, all of them share the
/// server's account's, and one gets a quarter.
pub(super) fn inotify(workspaces: u32) -> Finding {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap_or_default();
    judge_inotify(limit.trim().parse().ok(), is_root(), workspaces)
}

fn judge_inotify(limit: Option<u64>, is_root: bool, workspaces: u32) -> Finding {
    let name = "inotify instances";
    let Some(limit) = limit else {
        let remedy = "a kernel with CONFIG_INOTIFY_USER";
        return Finding::warning(
            name,
            "this kernel has none",
            "files in workspaces cannot be watched",
            remedy,
        );
    };
    let (found, needed) = if is_root {
        (format!("{limit} for each workspace"), INOTIFY_PER_WORKSPACE)
    } else {
        let of = format!("{limit} for all workspaces and whatever else this account runs");
        (of, INOTIFY_PER_WORKSPACE * u64::from(workspaces))
    };
    if limit >= needed {
        return Finding::ok(name, found);
    }
    let cost = if is_root {
        format!("a workspace can watch {limit} things at once; what comes after fails")
    } else {
        format!(
            "{workspaces} workspaces (WORKSPACE_MAX_CONCURRENT) have {} each; what comes after fails, also \
             in other programs of this account",
            limit / u64::from(workspaces.max(1))
        )
    };
    let enough = needed.next_power_of_two().max(1024);
    let remedy =
        format!("sysctl -w fs.inotify.max_user_instances={enough}, and the same in /etc/sysctl.d to keep it");
    Finding::warning(name, found, &cost, &remedy)
}

pub(super) fn seccomp() -> Finding {
    let actions = Path::new("/proc/sys/kernel/seccomp/actions_avail");
    if actions.exists() {
        return Finding::ok("seccomp", "with filters");
    }
    Finding::missing(
        "seccomp",
        "this kernel has no filters",
        NO_SANDBOX,
        "a kernel with CONFIG_SECCOMP_FILTER",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions() {
        assert_eq!(parse_version("6.18.44-fc-v445"), Some((6, 18)));
        assert_eq!(parse_version("5.4.0"), Some((5, 4)));
        assert_eq!(parse_version("5.15-rc1"), Some((5, 15)));
        assert_eq!(parse_version("weird"), None);
        assert!((5, 4) < MIN_VERSION && (6, 0) > MIN_VERSION);
    }

    #[test]
    fn inotify_is_judged_by_whom_it_is_shared_with() {
        use super::super::finding::Level;
        let check = |limit, is_root, workspaces, level, told: &str| {
            let finding = judge_inotify(limit, is_root, workspaces);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.to_text().contains(told), "{}", finding.to_text());
        };
        // Root has them for each workspace, however many there are.
        check(Some(128), true, 1000, Level::Ok, "128 for each workspace");
        check(Some(8), true, 10, Level::Warning, "max_user_instances=1024");
        check(Some(128), false, 4, Level::Ok, "128 for all workspaces");
        check(Some(128), false, 10, Level::Warning, "10 workspaces (WORKSPACE_MAX_CONCURRENT) have 12 each");
        check(Some(128), false, 100, Level::Warning, "max_user_instances=4096");
        check(None, false, 10, Level::Warning, "cannot be watched");
    }

    #[test]
    fn missing_controllers_are_named() {
        let finding = controllers("control groups", "version 2", |wanted| wanted != "memory");
        assert!(finding.to_text().contains("without memory"), "{}", finding.to_text());
    }
}
