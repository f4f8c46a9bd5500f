//! Copies of a disk that is being written to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emergent_host_disk::{DiskError, Geometry, LayeredDisk};
use rustix::fs::{CWD, Mode, mkdirat};
use rustix::mount::{MountFlags, UnmountFlags, mount};

use crate::support::{Place, SIZE, read, unmount, write};

/// Whether an ext4 file system is whole.
fn check(image: &Path) {
    let output = Command::new("e2fsck").args(["-f", "-n"]).arg(image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// Writes pairs of files, the second of each only after the first, until it is told to end.
fn write_pairs(disk: &LayeredDisk, end: &AtomicBool) -> u64 {
    let mut number = 0;
    while !end.load(Ordering::Relaxed) {
        number += 1;
        let text = number.to_string();
        write(disk, "workspace/first", &text);
        write(disk, &format!("workspace/file-{}", number % 50), &text.repeat(2000));
        write(disk, "workspace/second", &text);
    }
    number
}

#[test]
fn a_copy_is_of_one_moment_while_files_are_written() {
    let place = Place::new();
    let disk = place.mounted("a");
    disk.top_folders(&["workspace"]).unwrap();
    let end = AtomicBool::new(false);
    let snapshots: Vec<_> = (0..5).map(|number| place.path(format!("snapshot-{number}"))).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_pairs(&disk, &end));
        for snapshot in &snapshots {
            std::thread::sleep(Duration::from_millis(50));
            disk.snapshot(snapshot).unwrap();
        }
        end.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 5, "it has been stopped for good");
    });
    disk.remove().unwrap();

    let mut last = 0;
    for snapshot in &snapshots {
        check(snapshot);
        assert_eq!(fs::metadata(snapshot).unwrap().mode() & 0o777, 0o600);
        let copy = LayeredDisk::create_from_snapshot(&place.path("copy"), snapshot).unwrap();
        copy.mount(&place.lower()).unwrap();
        let number = |name: &str| read(&copy, name).parse().unwrap_or(0_u64);
        let (first, second) = (number("workspace/first"), number("workspace/second"));
        // A file that is being written is empty for a moment.
        assert!(first == 0 || second == 0 || first == second || first == second + 1, "{first} {second}");
        last = last.max(first);
        assert_eq!(read(&copy, "etc/hostname"), "lower\n");
        unmount(&copy);
        check(&place.path("copy/disk.img"));
        copy.remove().unwrap();
    }
    assert!(last > 0);
    place.assert_nothing_left();
}

#[test]
fn a_copy_keeps_what_was_there_and_nothing_later() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "before");
    let (mounted, unmounted) = (place.path("mounted"), place.path("unmounted"));
    disk.snapshot(&mounted).unwrap();
    write(&disk, "file", "after");
    fs::write(&unmounted, "replaced").unwrap();
    unmount(&disk);
    disk.snapshot(&unmounted).unwrap();
    disk.remove().unwrap();
    for (snapshot, text) in [(&mounted, "before"), (&unmounted, "after")] {
        check(snapshot);
        let found = fs::metadata(snapshot).unwrap();
        assert!(found.len() == SIZE && found.blocks() * 512 < SIZE, "{} blocks", found.blocks());
        let copy = LayeredDisk::create_from_snapshot(&place.path("b"), snapshot).unwrap();
        copy.mount(&place.lower()).unwrap();
        assert_eq!(read(&copy, "file"), text);
        copy.remove().unwrap();
    }
}

#[test]
fn a_copy_that_fails_leaves_nothing_and_stops_nobody() {
    let place = Place::new();
    let disk = place.mounted("a");
    let folder = place.path("snapshots");
    fs::create_dir(&folder).unwrap();

    // No time.
    let slow = disk.snapshot_within(&folder.join("slow"), Duration::ZERO).unwrap_err();
    assert!(matches!(slow, DiskError::TooSlow { .. }) && slow.is_retryable(), "{slow}");
    write(&disk, "file", "1");
    // No space, on another file system.
    mount("tmpfs", &folder, "tmpfs", MountFlags::empty(), Some(c"size=64k")).unwrap();
    let full = disk.snapshot(&folder.join("full")).unwrap_err();
    let left = fs::read_dir(&folder).unwrap().count();
    rustix::mount::unmount(&folder, UnmountFlags::DETACH).unwrap();
    assert!(full.is_out_of_space(), "{full}");
    assert_eq!(left, 0);
    write(&disk, "file", "2");
    // No such folder; no file name.
    assert!(disk.snapshot(&place.path("none/snapshot")).is_err());
    assert!(disk.snapshot(Path::new("/")).is_err());
    // A folder of that name.
    mkdirat(CWD, folder.join("taken"), Mode::from_raw_mode(0o700)).unwrap();
    assert!(disk.snapshot(&folder.join("taken")).is_err());
    write(&disk, "file", "3");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);

    assert_eq!(read(&disk, "file"), "3");
    disk.remove().unwrap();
    assert!(matches!(disk.snapshot(&folder.join("gone")), Err(DiskError::NotFound { .. })));
}

#[test]
fn a_copy_on_another_file_system_is_sparse_and_whole() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "kept");
    let folder = place.path("snapshots");
    fs::create_dir(&folder).unwrap();
    mount("tmpfs", &folder, "tmpfs", MountFlags::empty(), Some(c"size=32m")).unwrap();
    let started = Instant::now();
    let made = disk.snapshot(&folder.join("snapshot"));
    let took = started.elapsed();
    let copied = LayeredDisk::create_from_snapshot(&place.path("b"), &folder.join("snapshot"));
    let blocks = fs::metadata(folder.join("snapshot")).map(|found| found.blocks());
    rustix::mount::unmount(&folder, UnmountFlags::DETACH).unwrap();
    made.unwrap();
    assert!(blocks.unwrap() * 512 < SIZE / 2);
    assert!(took < Duration::from_secs(30), "{took:?}");
    let copy = copied.unwrap();
    check(&place.path("b/disk.img"));
    copy.mount(&place.lower()).unwrap();
    assert_eq!(read(&copy, "file"), "kept");
    copy.remove().unwrap();
    disk.remove().unwrap();
}

#[test]
fn a_copy_can_be_larger_than_what_it_is_of() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "kept");
    let snapshot = place.path("snapshot");
    disk.snapshot(&snapshot).unwrap();
    disk.remove().unwrap();
    // Within a group of blocks, beyond one, and beyond what one block of descriptors describes; and no less.
    for (bytes, expect) in [(64 << 20, 64 << 20), (1 << 30, 1 << 30), (20 << 30, 20 << 30), (SIZE / 2, SIZE)]
    {
        let geometry = Geometry::for_size(bytes);
        let copy = LayeredDisk::create_larger_from_snapshot(&place.path("b"), &snapshot, geometry).unwrap();
        assert!(fs::metadata(place.path("b/disk.img")).unwrap().blocks() * 512 < SIZE * 2, "{bytes}");
        copy.mount(&place.lower()).unwrap();
        let usage = copy.usage().unwrap();
        // Of the smallest the file system itself takes a good part.
        let least = if expect == SIZE { expect / 10 * 6 } else { expect / 10 * 8 };
        assert!((least..=expect).contains(&usage.bytes_total), "{bytes}: {usage:?}");
        assert_eq!(read(&copy, "file"), "kept");
        write(&copy, "more", "written");
        unmount(&copy);
        check(&place.path("b/disk.img"));
        copy.mount(&place.lower()).unwrap();
        assert_eq!(read(&copy, "more"), "written");
        copy.remove().unwrap();
    }
    place.assert_nothing_left();
}
