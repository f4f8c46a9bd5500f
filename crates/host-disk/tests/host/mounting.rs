//! Mounting, again and again, wherever the disk is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use emergent_host_disk::{DiskError, Geometry, LayeredDisk};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change};

use crate::support::{Place, SIZE, mounts_of, read, unmount, write};

#[test]
fn what_was_written_is_there_again_and_the_lower_layer_is_as_it_was() {
    let place = Place::new();
    let disk = place.mounted("a");
    assert_eq!(read(&disk, "etc/hostname"), "lower\n");
    write(&disk, "etc/hostname", "changed\n");
    write(&disk, "new", "new");
    fs::rename(disk.root().join("etc"), disk.root().join("renamed")).unwrap();
    unmount(&disk);
    assert!(place.census().is_empty(), "{:?}", place.census());
    assert!(!disk.is_mounted().unwrap());
    assert!(matches!(disk.usage(), Err(DiskError::NotMounted { .. })));

    let disk = LayeredDisk::open(&place.path("a")).unwrap();
    disk.mount(&place.lower()).unwrap();
    assert_eq!((read(&disk, "renamed/hostname"), read(&disk, "new")), ("changed\n".into(), "new".into()));
    assert_eq!(fs::read_to_string(place.lower().join("etc/hostname")).unwrap(), "lower\n");
    assert_eq!(fs::read_dir(place.lower()).unwrap().count(), 1);
    let root = fs::metadata(disk.root()).unwrap();
    assert_eq!(root.permissions().mode() & 0o7777, 0o755);
    disk.remove().unwrap();
}

#[test]
fn twice_is_once() {
    let place = Place::new();
    let disk = place.mounted("a");
    let before = place.census();
    // Two mounts, a loop device.
    assert_eq!(before.len(), 3, "{before:?}");
    write(&disk, "file", "kept");
    disk.mount(&place.lower()).unwrap();
    LayeredDisk::open(&place.path("a")).unwrap().mount(&place.lower()).unwrap();
    assert_eq!(place.census(), before);
    assert!(disk.is_mounted().unwrap());
    assert_eq!(read(&disk, "file"), "kept");
    for line in before.iter().filter(|line| line.contains("nosuid")) {
        assert!(line.contains("nodev"), "{line}");
    }
    assert_eq!(before.iter().filter(|line| line.contains("nosuid,nodev")).count(), 2, "{before:?}");
    unmount(&disk);
    unmount(&disk);
    disk.remove().unwrap();
    disk.remove().unwrap();
    assert!(place.disks().is_empty());
}

#[test]
fn many_at_once_do_not_get_in_each_others_way() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (place, name) = (&place, format!("disk-{number}"));
            scope.spawn(move || {
                let disk = place.create(&name);
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| disk.mount(&place.lower()).unwrap());
                    }
                });
                write(&disk, "file", &name);
                assert_eq!(read(&disk, "file"), name);
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| unmount(&disk));
                    }
                });
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| disk.remove().unwrap());
                    }
                });
            });
        }
    });
    place.assert_nothing_left();
    assert!(place.disks().is_empty());
}

#[test]
fn half_of_it_is_completed() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "kept");
    let take_off =
        |name: &str| rustix::mount::unmount(place.path("a").join(name), UnmountFlags::empty()).unwrap();
    let whole = place.census().len();

    take_off("root");
    assert!(!disk.is_mounted().unwrap());
    disk.mount(&place.lower()).unwrap();
    assert_eq!((read(&disk, "file"), place.census().len()), ("kept".to_owned(), whole));

    take_off("disk");
    assert!(!disk.is_mounted().unwrap());
    disk.mount(&place.lower()).unwrap();
    assert_eq!((read(&disk, "file"), place.census().len()), ("kept".to_owned(), whole));
    disk.remove().unwrap();
}

#[test]
fn another_lower_layer_is_not_slipped_in() {
    let place = Place::new();
    let disk = place.mounted("a");
    let other = place.lower().join("etc");
    assert!(matches!(disk.mount(&other), Err(DiskError::OtherLower { .. })));
    assert_eq!(read(&disk, "etc/hostname"), "lower\n");
    unmount(&disk);
    disk.mount(&other).unwrap();
    assert_eq!(read(&disk, "hostname"), "lower\n");
    unmount(&disk);
    assert!(matches!(disk.mount(&place.path("none")), Err(DiskError::Step { step: "lower layer", .. })));
    assert!(place.census().is_empty());
    disk.remove().unwrap();
}

#[test]
fn an_image_is_never_mounted_twice() {
    let place = Place::new();
    let disk = place.mounted("a");
    let (image, aside) = (place.path("a").join("disk.img"), place.path("aside"));
    fs::rename(&image, &aside).unwrap();
    fs::write(&image, "another").unwrap();
    assert!(matches!(disk.mount(&place.lower()), Err(DiskError::ForeignMount { .. })));
    fs::rename(&aside, &image).unwrap();
    disk.mount(&place.lower()).unwrap();
    disk.remove().unwrap();
}

#[test]
fn a_disk_is_never_overwritten() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "kept");
    let geometry = Geometry::for_size(SIZE);
    for _ in 0..2 {
        let again = LayeredDisk::create(&place.path("a"), geometry, &place.templates());
        assert!(matches!(again, Err(DiskError::AlreadyExists { .. })));
        disk.mount(&place.lower()).unwrap();
        assert_eq!(read(&disk, "file"), "kept");
        unmount(&disk);
    }
    disk.remove().unwrap();
    assert!(matches!(disk.mount(&place.lower()), Err(DiskError::NotFound { .. })));
    assert!(matches!(LayeredDisk::open(&place.path("a")), Err(DiskError::NotFound { .. })));
}

#[test]
fn folders_may_be_called_anything() {
    let place = Place::new();
    for (number, name) in [
        &b"with space"[..],
        b"comma,upperdir=etc,colon:colon",
        b"back\\slash\\040 and #hash",
        b"line\nend\ttab \"quote\" 'quote' =",
        b"not \xff\xfe text",
        "\u{e9}\u{4e2d}".as_bytes(),
    ]
    .into_iter()
    .enumerate()
    {
        let parent = place.path(OsStr::from_bytes(name));
        let lower = parent.join(OsStr::from_bytes(name));
        fs::create_dir_all(&lower).unwrap();
        fs::write(lower.join("number"), number.to_string()).unwrap();
        let folder = parent.join(OsStr::from_bytes(&[b"state ", name].concat()));
        let disk = LayeredDisk::create(&folder, Geometry::for_size(SIZE), &place.templates()).unwrap();
        assert!(!disk.is_mounted().unwrap());
        disk.mount(&lower).unwrap();
        disk.mount(&lower).unwrap();
        assert!(disk.is_mounted().unwrap());
        assert_eq!(read(&disk, "number"), number.to_string());
        write(&disk, "new", "kept");
        unmount(&disk);
        disk.mount(&lower).unwrap();
        assert_eq!(read(&disk, "new"), "kept");
        disk.remove().unwrap();
        assert!(!folder.exists());
        fs::remove_dir_all(&parent).unwrap();
    }
    place.assert_nothing_left();
}

/// As Docker's daemon does, when it runs in a mount namespace that gets what the host's gets.
#[test]
fn mounts_are_seen_where_the_folders_mounts_are_seen() {
    let place = Place::new();
    let shared = place.path("shared");
    fs::create_dir(&shared).unwrap();
    mount_bind(&shared, &shared).unwrap();
    mount_change(&shared, MountPropagationFlags::SHARED).unwrap();
    let mut other = Command::new("unshare")
        .args(["--mount", "--propagation", "unchanged", "sh", "-c", "echo; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It is in its own namespace once it has said so.
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let seen = || mounts_of(&other.id().to_string(), &shared.join("a")).len();

    let disk = LayeredDisk::create(&shared.join("a"), Geometry::for_size(SIZE), &place.templates()).unwrap();
    disk.mount(&place.lower()).unwrap();
    let with = seen();
    unmount(&disk);
    let without = seen();
    disk.remove().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    rustix::mount::unmount(&shared, UnmountFlags::DETACH).unwrap();
    assert_eq!((with, without), (2, 0));
    place.assert_nothing_left();
}
