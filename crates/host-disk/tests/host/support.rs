//! A place for disks, and what they have left on the host.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use emergent_host_disk::{Geometry, LayeredDisk, Unmounted};

/// The least there is: what runs out is soon run out.
pub(crate) const SIZE: u64 = 16 << 20;

/// A folder with a lower layer, templates and any number of disks. Nothing may be left mounted in
/// it at the end.
pub(crate) struct Place {
    base: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { base: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.lower().join("etc")).unwrap();
        fs::write(place.lower().join("etc/hostname"), "lower\n").unwrap();
        place
    }

    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.base.path().join(name.as_ref())
    }

    pub(crate) fn lower(&self) -> PathBuf {
        self.path("lower")
    }

    pub(crate) fn templates(&self) -> PathBuf {
        self.path("templates")
    }

    pub(crate) fn create(&self, name: &str) -> LayeredDisk {
        LayeredDisk::create(&self.path(name), Geometry::for_size(SIZE), &self.templates()).unwrap()
    }

    pub(crate) fn mounted(&self, name: &str) -> LayeredDisk {
        let disk = self.create(name);
        disk.mount(&self.lower()).unwrap();
        disk
    }

    /// Mounts and loop devices in this place. Loop devices may take a moment to go.
    pub(crate) fn census(&self) -> Vec<String> {
        let mut found: Vec<String> = mounts_of("self", self.base.path());
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let backing = fs::read(device.path().join("loop/backing_file")).unwrap_or_default();
            if contains(&backing, self.base.path()) {
                found.push(format!("{}: {}", device.file_name().display(), backing.escape_ascii()));
            }
        }
        found
    }

    /// Waits until nothing is mounted or attached here.
    pub(crate) fn assert_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.census().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.census(), Vec::<String>::new());
    }

    /// The names of what is here, without what is here from the beginning.
    pub(crate) fn disks(&self) -> Vec<String> {
        let names = fs::read_dir(self.base.path()).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !["lower", "templates"].contains(&name.as_str())).collect()
    }
}

impl Drop for Place {
    /// A test that fails leaves its host as it was, too.
    fn drop(&mut self) {
        for name in self.disks() {
            let _ = LayeredDisk::remove_folder(&self.path(name));
        }
    }
}

/// Lines of a process's table of mounts that are about this folder.
pub(crate) fn mounts_of(process: &str, folder: &Path) -> Vec<String> {
    let table = fs::read(format!("/proc/{process}/mountinfo")).unwrap();
    let lines = table.split(|byte| *byte == b'\n').filter(|line| contains(line, folder));
    lines.map(|line| line.escape_ascii().to_string()).collect()
}

fn contains(text: &[u8], folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    text.windows(folder.len()).any(|window| window == folder)
}

pub(crate) fn unmount(disk: &LayeredDisk) {
    assert_eq!(disk.unmount().unwrap(), Unmounted::Freed);
}

pub(crate) fn read(disk: &LayeredDisk, path: &str) -> String {
    fs::read_to_string(disk.root().join(path)).unwrap()
}

pub(crate) fn write(disk: &LayeredDisk, path: &str, text: &str) {
    fs::write(disk.root().join(path), text).unwrap();
}
