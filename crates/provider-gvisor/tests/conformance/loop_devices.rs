//! Loop devices as a restart of the host leaves them: those of workspaces are gone, and their numbers are given to
//! others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use emergent_host_disk::LoopDevice;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// How long what has ended may keep something busy, and how often that is looked at.
const LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Far more than there are numbers below any that tests get.
const MOST_OTHERS: usize = 200;

/// The loop device of the disk in the folder of a workspace, which is named after it.
pub(crate) fn device_of(folder: &Path) -> Option<PathBuf> {
    let image = Path::new(folder.file_name().expect("a folder with a name")).join("disk.img");
    let mut devices = fs::read_dir("/sys/block").expect("devices are listed").flatten();
    let holds = |file: String| Path::new(file.trim_end()).ends_with(&image);
    let found =
        devices.find(|device| fs::read_to_string(device.path().join("loop/backing_file")).is_ok_and(holds));
    found.map(|device| Path::new("/dev").join(device.file_name()))
}

/// Takes off what is mounted in the folder of a workspace whose processes have been killed, behind everybody's back.
/// The loop device of its disk goes with the last mount.
pub(crate) async fn unmount_all(folder: &Path, names: &[&str]) {
    let deadline = Instant::now() + LIMIT;
    for place in names.iter().map(|name| folder.join(name)) {
        while let Err(error) = unmount(&place, UnmountFlags::NOFOLLOW) {
            assert!(error == Errno::BUSY && Instant::now() < deadline, "{}: {error}", place.display());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    while let Some(device) = device_of(folder) {
        assert!(Instant::now() < deadline, "{} is still attached", device.display());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Gives loop devices to somebody else, for as long as what this returns is held.
pub(crate) async fn occupy(devices: &[PathBuf]) -> Vec<LoopDevice> {
    let file = tempfile::tempfile().expect("a temporary file can be made");
    file.set_len(1 << 20).expect("it can have a size");
    let deadline = Instant::now() + LIMIT;
    let mut others: Vec<LoopDevice> = Vec::new();
    loop {
        let is_ours = |device: &&PathBuf| others.iter().any(|other| other.path() == **device);
        let mut missing = devices.iter().filter(|device| !is_ours(device)).peekable();
        if missing.peek().is_none() {
            return others;
        }
        if missing.any(|device| !is_taken(device)) {
            // The kernel gives the lowest number that is free.
            assert!(others.len() < MOST_OTHERS, "{devices:?} cannot be had");
            others.push(LoopDevice::attach(&file).expect("a loop device is free"));
        } else if Instant::now() > deadline {
            // Another test was faster and keeps them, which will do as well.
            return others;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn is_taken(device: &Path) -> bool {
    let name = device.file_name().expect("a device with a name");
    Path::new("/sys/block").join(name).join("loop/backing_file").exists()
}
