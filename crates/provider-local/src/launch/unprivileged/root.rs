//! The sandbox's root, put together in its own mount namespace and with nothing but what its
//! own account may do. The same as with root, as far as a sandbox can tell.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{fchdir, pivot_root};

use crate::launch::kernel;
use crate::launch::mounts::{HERE, Setting, attach, clone_detached, folder_in, mount_detached, restrict};
use crate::launch::request::LaunchRequest;
use crate::launch::rootfs::Overmounts;
use crate::launch::spec::{MASKED, MAX_TERMINALS, READ_ONLY};
use crate::launch::stage::{open_file, open_folder};
use crate::layout::DISK_FOLDER;

/// Devices that are not one.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

const LINKS: [(&str, &str); 6] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

const LOCKED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// What one sandbox may have of what all of them share, and of little at least so much.
const SHARE: u64 = 4;
const LEAST: u64 = 16;

/// Moves this process, the first of its PID namespace, into the sandbox's root. The host's
/// file system is not reachable any more.
pub(super) fn enter(request: &LaunchRequest) -> io::Result<()> {
    // Its own: a new root in the helper's namespace would be the helper's root too.
    kernel::unshare_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let folder = request.state_folder.join(DISK_FOLDER);
    let disk = clone_detached(&folder, false)?;
    restrict(&disk, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV)?;
    let over = Overmounts::clone_from_host(request)?;
    let devices = Devices::clone_from_host()?;
    // While the host's are still there: the kernel gives a user namespace no more of them than
    // it can see already.
    let systems = KernelFiles::mount()?;
    let memory = MemoryFiles::mount(request.limits.memory.bytes())?;

    attach(&disk, open_folder(&folder.to_string_lossy())?)?;
    fchdir(&disk)?;
    pivot_root(HERE, HERE)?;
    unmount(HERE, UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;

    over.attach(&disk)?;
    for (name, mount) in systems.0.iter().chain(&memory.0) {
        attach(mount, folder_in(&disk, name)?)?;
    }
    devices.attach(&memory.1)?;
    // A user namespace inside would bring back every capability.
    fs::write("/proc/sys/user/max_user_namespaces", "0")?;
    share_what_is_counted()?;
    lock_down()
}

/// What the kernel counts per account is the server's account's for all sandboxes together. One
/// of them gets a part of it, and cannot take the rest from the others and from the server.
fn share_what_is_counted() -> io::Result<()> {
    for (all, own) in [
        ("fs/inotify/max_user_instances", "max_inotify_instances"),
        ("fs/inotify/max_user_watches", "max_inotify_watches"),
        ("fs/fanotify/max_user_groups", "max_fanotify_groups"),
        ("fs/fanotify/max_user_marks", "max_fanotify_marks"),
    ] {
        let read = fs::read_to_string(format!("/proc/sys/{all}")).ok();
        let Some(all) = read.and_then(|text| text.trim().parse::<u64>().ok()) else { continue };
        match fs::write(format!("/proc/sys/user/{own}"), (all / SHARE).max(LEAST).to_string()) {
            // A kernel that does not count them so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => written?,
        }
    }
    Ok(())
}

/// `/proc` and `/sys`, of the sandbox's own namespaces.
struct KernelFiles([(&'static str, OwnedFd); 2]);

impl KernelFiles {
    fn mount() -> io::Result<Self> {
        let proc = mount_detached("proc", &[], LOCKED)
            .map_err(|error| io::Error::new(error.kind(), format!("a /proc of its own: {error}")))?;
        let read_only = LOCKED | MountAttrFlags::MOUNT_ATTR_RDONLY;
        // Where the host's is hidden in part, as in many containers, there is none at all.
        let sys = mount_detached("sysfs", &[], read_only).or_else(|_| empty(read_only))?;
        Ok(Self([("proc", proc), ("sys", sys)]))
    }
}

/// What is in memory: three mounts of the root, and those of `/dev`.
struct MemoryFiles([(&'static str, OwnedFd); 3], [(&'static str, OwnedFd); 3]);

impl MemoryFiles {
    /// Together less than the memory the sandbox was to have.
    fn mount(bytes: u64) -> io::Result<Self> {
        let tmpfs = |size: u64, mode: &str, attributes| {
            let size = size.to_string();
            mount_detached("tmpfs", &[Setting::Text("size", &size), Setting::Text("mode", mode)], attributes)
        };
        let usable = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let most = MAX_TERMINALS.to_string();
        let terminals =
            [Setting::Text("ptmxmode", "0666"), Setting::Text("mode", "0620"), Setting::Text("max", &most)];
        Ok(Self(
            [
                ("dev", tmpfs(64 << 10, "0755", no_programs)?),
                ("tmp", tmpfs(bytes / 2, "1777", usable)?),
                ("run", tmpfs(bytes / 8, "0755", usable)?),
            ],
            [
                ("pts", mount_detached("devpts", &terminals, no_programs)?),
                ("shm", tmpfs(bytes / 4, "1777", LOCKED)?),
                ("mqueue", mount_detached("mqueue", &[], LOCKED)?),
            ],
        ))
    }
}

/// An empty folder that stays empty.
fn empty(attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    mount_detached("tmpfs", &[Setting::Text("size", "4k"), Setting::Text("mode", "0555")], attributes)
}

/// Devices of the host that are nobody's.
struct Devices(Vec<(&'static str, OwnedFd)>);

impl Devices {
    fn clone_from_host() -> io::Result<Self> {
        let mut mounts = Vec::new();
        for name in DEVICES {
            let mount = clone_detached(&Path::new("/dev").join(name), false)?;
            restrict(&mount, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
            mounts.push((name, mount));
        }
        Ok(Self(mounts))
    }

    /// Fills the sandbox's `/dev`.
    fn attach(self, folders: &[(&'static str, OwnedFd)]) -> io::Result<()> {
        let dev = Path::new("/dev");
        for (name, mount) in &self.0 {
            let place = dev.join(name);
            File::create_new(&place)?;
            attach(mount, open_file(&place.to_string_lossy())?)?;
        }
        for (name, mount) in folders {
            let place = dev.join(name);
            fs::create_dir(&place)?;
            attach(mount, open_folder(&place.to_string_lossy())?)?;
        }
        LINKS.iter().try_for_each(|(name, target)| symlink(target, dev.join(name)))
    }
}

/// Hides what tells about the host and closes what could change it.
fn lock_down() -> io::Result<()> {
    for path in READ_ONLY {
        match clone_detached(Path::new(path), true) {
            Ok(view) => {
                restrict(&view, LOCKED | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
                attach(&view, open_file(path)?)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    for path in MASKED {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => {
                attach(&empty(LOCKED | MountAttrFlags::MOUNT_ATTR_RDONLY)?, open_folder(path)?)?;
            }
            Ok(found) if found.is_file() => {
                attach(&clone_detached(Path::new("/dev/null"), false)?, open_file(path)?)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
