//! Disks that are mounted where nobody else can see it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use emergent_host_disk::{
    DiskError, HiddenDisk, LoopDevice, Setting, copy_sparse, lock_when_detached, mount_detached,
};
use rustix::mount::MountAttrFlags;

use crate::interrupted::after_every_call;
use crate::support::Place;

/// A disk that is mounted nowhere, as if in a namespace of its own.
struct Hidden {
    mount: OwnedFd,
}

fn image(place: &Place, name: &str) -> PathBuf {
    place.create(name).folder().join("disk.img")
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

impl Hidden {
    fn of(image: &Path) -> Self {
        let file = lock_when_detached(image, soon()).unwrap();
        let device = LoopDevice::attach(&file).unwrap();
        let source = device.path().to_string_lossy().into_owned();
        let settings = [Setting::Text("source", &source), Setting::Flag("noinit_itable")];
        Self { mount: mount_detached("ext4", &settings, MountAttrFlags::empty()).unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.mount.as_raw_fd()).into()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Whether anything can be written, which waits for ever on a frozen one.
    fn assert_goes_on(&self) {
        let (done, is_done) = mpsc::channel();
        let path = self.file("goes-on");
        std::thread::spawn(move || done.send(fs::write(path, "x")));
        is_done.recv_timeout(Duration::from_secs(10)).expect("a write waits for ever").unwrap();
    }
}

/// What is in a copy.
fn content(copy: &Path, name: &str) -> String {
    Hidden::of(copy).read(name)
}

#[test]
fn a_copy_keeps_what_was_there_and_nothing_later() {
    let place = Place::new();
    let (image, to) = (image(&place, "a"), place.path("snapshot"));
    let disk = Hidden::of(&image);
    disk.write("file", "before");
    HiddenDisk::new(&image).snapshot(&to).unwrap();
    disk.write("file", "after");
    assert_eq!(content(&to, "file"), "before");
    drop(disk);
    // Also once nobody has it mounted any more.
    HiddenDisk::new(&image).snapshot(&to).unwrap();
    assert_eq!(content(&to, "file"), "after");
    // It is free, and nothing was left with it.
    drop(lock_when_detached(&image, soon()).unwrap());
    place.assert_nothing_left();
}

#[test]
fn a_copy_is_of_one_moment_while_files_are_written() {
    let place = Place::new();
    let image = image(&place, "a");
    let disk = Hidden::of(&image);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0_u64;
            while !end.load(Ordering::Relaxed) {
                number += 1;
                for name in ["first", "second"] {
                    disk.write("new", &number.to_string());
                    fs::rename(disk.file("new"), disk.file(name)).unwrap();
                }
            }
            number
        });
        let mut last = 0;
        for round in 0..5 {
            let deadline = soon();
            while fs::read_to_string(disk.file("second"))
                .is_ok_and(|text| text.parse().is_ok_and(|n: u64| n > last))
                .eq(&false)
            {
                assert!(Instant::now() < deadline, "it has been stopped for good");
                std::thread::yield_now();
            }
            let to = place.path(format!("snapshot-{round}"));
            HiddenDisk::new(&image).snapshot(&to).unwrap();
            let copy = Hidden::of(&to);
            let number = |name| copy.read(name).parse::<u64>().unwrap();
            let (first, second) = (number("first"), number("second"));
            assert!(first == second || first == second + 1, "{first} {second}");
            last = second;
        }
        end.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    drop(disk);
    place.assert_nothing_left();
}

/// Two disks of the same name are told apart: what happens to one is nothing to the other.
#[test]
fn a_disk_of_the_same_name_is_another() {
    let (one, other) = (Place::new(), Place::new());
    let (image_one, image_other) = (image(&one, "a"), image(&other, "a"));
    let mounted = Hidden::of(&image_one);
    mounted.write("file", "of the one");
    let to = other.path("snapshot");
    HiddenDisk::new(&image_other).snapshot(&to).unwrap();
    assert!(!Hidden::of(&to).file("file").exists());
    HiddenDisk::new(&image_one).snapshot(&to).unwrap();
    assert_eq!(content(&to, "file"), "of the one");
    drop(mounted);
    one.assert_nothing_left();
    other.assert_nothing_left();
}

#[test]
fn a_copy_that_fails_leaves_nothing_and_stops_nobody() {
    let place = Place::new();
    let image = image(&place, "a");
    let disk = Hidden::of(&image);
    let folder = place.path("snapshots");
    fs::create_dir(&folder).unwrap();
    let slow = HiddenDisk::new(&image).snapshot_within(&folder.join("slow"), Duration::ZERO).unwrap_err();
    assert!(matches!(slow, DiskError::TooSlow { .. }), "{slow}");
    disk.assert_goes_on();
    assert!(HiddenDisk::new(&image).snapshot(&folder.join("no/such")).is_err());
    disk.assert_goes_on();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let gone = place.path("gone/disk.img");
    assert!(HiddenDisk::new(&gone).snapshot(&folder.join("gone")).is_err());
}

/// Killed after every single thing that it does, it leaves a disk that goes on once somebody has looked
/// after it; and one whose sandbox has ended meanwhile becomes free.
#[test]
fn a_snapshot_that_was_killed_leaves_no_disk_frozen() {
    let place = Place::new();
    let (image, to) = (image(&place, "a"), place.path("snapshot"));
    let mut disk = Hidden::of(&image);
    let (mut complete, mut frozen) = (0, 0);
    after_every_call(&[Path::new("snapshot-hidden"), &image, &to], |calls| {
        let was_frozen = is_frozen(&disk.mount);
        frozen += u32::from(was_frozen);
        if calls % 2 == 0 {
            HiddenDisk::new(&image).thaw().unwrap();
            disk.assert_goes_on();
        } else {
            // Its sandbox ends first.
            let image = image.clone();
            take_over(&mut disk, move || {
                HiddenDisk::new(&image).thaw().unwrap();
                Hidden::of(&image)
            });
            disk.assert_goes_on();
        }
        assert!(!is_frozen(&disk.mount));
        if to.exists() {
            complete += 1;
            drop(Hidden::of(&to));
            let copy = place.path("copy");
            copy_sparse(&to, &copy).unwrap();
            fs::remove_file(&copy).unwrap();
            lock_when_detached(&to, soon()).unwrap();
            fs::remove_file(&to).unwrap();
        }
    });
    assert!(complete > 0 && frozen > 3, "{complete}, {frozen}");
    drop(disk);
    place.assert_nothing_left();
}

/// Drops the old one before the new one is made.
fn take_over(disk: &mut Hidden, next: impl FnOnce() -> Hidden) {
    let nowhere = File::open("/dev/null").unwrap().into();
    drop(std::mem::replace(&mut disk.mount, nowhere));
    *disk = next();
}

/// Freezes it to find out; what was not frozen goes on.
#[expect(unsafe_code, reason = "freezing is an ioctl")]
fn is_frozen(mount: &OwnedFd) -> bool {
    const FIFREEZE: libc::c_ulong = 0xC004_5877;
    const FITHAW: libc::c_ulong = 0xC004_5878;
    let folder = File::open(format!("/proc/self/fd/{}", mount.as_raw_fd())).unwrap();
    // SAFETY: both requests ignore their argument.
    let request = |what| match unsafe { libc::ioctl(folder.as_raw_fd(), what, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    match request(FIFREEZE) {
        Ok(()) => {
            request(FITHAW).unwrap();
            false
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{error}");
            true
        }
    }
}
