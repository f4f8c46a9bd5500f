//! Mount points while nothing is mounted on them.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use emergent_host_disk::{Geometry, LayeredDisk};
use rustix::mount::{MountFlags, UnmountFlags, mount};

use crate::support::{Place, SIZE, unmount, write};

fn assert_nothing_can_be_written(folder: &Path) {
    for name in ["disk", "root"] {
        let point = folder.join(name);
        let beside = folder.join("beside");
        fs::write(&beside, "x").unwrap();
        let refused = [
            fs::write(point.join("file"), "x"),
            fs::create_dir(point.join("folder")),
            fs::create_dir_all(point.join("upper/etc")),
            symlink("/etc", point.join("link")),
            fs::hard_link(&beside, point.join("hard")),
            fs::rename(&beside, point.join("moved")),
            fs::remove_dir(&point),
            fs::rename(&point, folder.join("away")),
        ];
        fs::remove_file(&beside).unwrap();
        for (number, result) in refused.into_iter().enumerate() {
            let error = result.expect_err("written to the host's disk").kind();
            assert_eq!(error, ErrorKind::PermissionDenied, "{name}: {number}");
        }
        assert_eq!(fs::read_dir(&point).unwrap().count(), 0);
    }
}

#[test]
fn not_even_root_writes_through_them() {
    let place = Place::new();
    let disk = place.create("a");
    assert_nothing_can_be_written(disk.folder());
    disk.mount(&place.lower()).unwrap();
    write(&disk, "file", "on the disk");
    unmount(&disk);
    assert_nothing_can_be_written(disk.folder());
    disk.remove().unwrap();
    assert!(!place.path("a").exists());
}

/// Where the host's file system has no such flag.
#[test]
fn without_the_flag_there_is_no_right_to_anything() {
    let place = Place::new();
    let memory = place.path("memory");
    fs::create_dir(&memory).unwrap();
    mount("ramfs", &memory, "ramfs", MountFlags::empty(), None).unwrap();
    let folder = memory.join("a");
    let disk = LayeredDisk::create(&folder, Geometry::for_size(SIZE), &place.templates()).unwrap();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("disk"), mode("root")), (0, 0));
    disk.mount(&place.lower()).unwrap();
    write(&disk, "file", "kept");
    unmount(&disk);
    // Root can, here; it is removed with the rest.
    fs::create_dir_all(folder.join("root/etc/deep")).unwrap();
    disk.remove().unwrap();
    let left = fs::read_dir(&memory).unwrap().count();
    rustix::mount::unmount(&memory, UnmountFlags::DETACH).unwrap();
    assert_eq!(left, 0);
    place.assert_nothing_left();
}
