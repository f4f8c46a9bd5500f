//! What the kernel must offer.

use std::fs;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::finding::Finding;

/// Idmapped mounts of ext4, by which a sandbox's disk is shifted to its own user ids.
const MIN_VERSION: (u32, u32) = (5, 12);

const NO_SANDBOX: &str = "the embedded provider cannot make sandboxes";

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

pub(super) fn root() -> Finding {
    let is_root = rustix::process::geteuid().is_root();
    let is_privileged = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    match (is_root, is_privileged) {
        (true, true) => Finding::ok("root", "yes, with CAP_SYS_ADMIN"),
        (true, false) => Finding::missing(
            "root",
            "yes, but without CAP_SYS_ADMIN",
            NO_SANDBOX,
            "run it outside of a container, or in a privileged one",
        ),
        (false, _) => Finding::missing(
            "root",
            format!("no, user id {}", rustix::process::geteuid().as_raw()),
            NO_SANDBOX,
            "start the server with sudo, or as a system service",
        ),
    }
}

pub(super) fn user_namespaces() -> Finding {
    let name = "user namespaces";
    let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces").ok();
    match limit.as_deref().map(str::trim).and_then(|text| text.parse::<u64>().ok()) {
        None => Finding::missing(name, "this kernel has none", NO_SANDBOX, "a kernel with CONFIG_USER_NS"),
        Some(0) => {
            Finding::missing(name, "switched off", NO_SANDBOX, "sysctl -w user.max_user_namespaces=10000")
        }
        Some(limit) => Finding::ok(name, format!("up to {limit}")),
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
    Finding::missing(
        name,
        format!("{version}, without {}", missing.join(", ")),
        "limits could not be enforced, so nothing is made",
        "boot with these controllers enabled (cgroup_enable=memory where memory is missing)",
    )
}

pub(super) fn loop_devices() -> Finding {
    match fs::File::open("/dev/loop-control") {
        Ok(_) => Finding::ok("loop devices", "/dev/loop-control"),
        Err(error) => Finding::missing(
            "loop devices",
            format!("/dev/loop-control: {error}"),
            NO_SANDBOX,
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
    Finding::missing("ext4", "this kernel has none", NO_SANDBOX, "modprobe ext4")
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
    fn missing_controllers_are_named() {
        let finding = controllers("control groups", "version 2", |wanted| wanted != "memory");
        assert!(finding.to_text().contains("without memory"), "{}", finding.to_text());
    }
}
