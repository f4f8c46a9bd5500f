//! What is left: nothing. What is touched: nothing else.

use std::fs;
use std::os::unix::fs::symlink;

use emergent_host_disk::{DiskError, LayeredDisk};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind};

use crate::support::{Place, write};

#[test]
fn nothing_is_left_of_a_mounted_disk() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "x");
    assert!(!place.census().is_empty());
    disk.remove().unwrap();
    assert_eq!(place.census(), Vec::<String>::new());
    assert!(place.disks().is_empty());
    assert!(place.lower().join("etc/hostname").exists());
    LayeredDisk::remove_folder(&place.path("a")).unwrap();
}

#[test]
fn mounts_in_a_root_are_taken_off_and_not_emptied() {
    let place = Place::new();
    let disk = place.mounted("a");
    let kept = place.path("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "kept").unwrap();
    fs::create_dir(disk.root().join("proc")).unwrap();
    mount_bind(&kept, disk.root().join("proc")).unwrap();
    disk.remove().unwrap();
    place.assert_nothing_left();
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
    assert_eq!(place.disks(), ["kept"]);
}

#[test]
fn what_others_have_put_beside_it_stays() {
    let place = Place::new();
    let disk = place.create("a");
    let (inner, victim) = (place.path("a/inner"), place.path("victim"));
    fs::create_dir(&inner).unwrap();
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("kept"), "kept").unwrap();
    symlink(&victim, place.path("a/link")).unwrap();
    // Instead of the disk itself.
    fs::remove_file(place.path("a/disk.img")).unwrap();
    symlink(victim.join("kept"), place.path("a/disk.img")).unwrap();
    assert!(matches!(LayeredDisk::open(&place.path("a")), Err(DiskError::NotFound { .. })));
    assert!(matches!(disk.mount(&place.lower()), Err(DiskError::NotFound { .. })));
    mount("tmpfs", &inner, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(inner.join("kept"), "kept").unwrap();

    let removed = disk.remove();
    let kept = fs::read_to_string(inner.join("kept"));
    rustix::mount::unmount(&inner, UnmountFlags::DETACH).unwrap();
    removed.unwrap();
    assert_eq!(kept.unwrap(), "kept");
    assert_eq!(fs::read_to_string(victim.join("kept")).unwrap(), "kept");
    let mut left: Vec<_> = fs::read_dir(place.path("a")).unwrap().flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["inner", "link"]);
}

#[test]
fn a_create_that_fails_leaves_nothing() {
    let place = Place::new();
    let snapshot = place.path("none");
    assert!(LayeredDisk::create_from_snapshot(&place.path("a"), &snapshot).is_err());
    assert!(place.disks().is_empty());
}
