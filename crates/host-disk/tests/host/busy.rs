//! Disks that somebody still uses.

use std::fs::File;
use std::io::{Read, Write};

use emergent_host_disk::{DiskError, Unmounted};

use crate::support::{Place, read, unmount, write};

#[test]
fn what_is_in_use_goes_out_of_sight_and_says_so() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "kept");
    let mut user = File::options().read(true).write(true).open(disk.root().join("file")).unwrap();

    assert_eq!(disk.unmount().unwrap(), Unmounted::InUse);
    assert!(!disk.is_mounted().unwrap());
    assert!(!disk.root().join("file").exists());
    let mut text = String::new();
    user.read_to_string(&mut text).unwrap();
    user.write_all(b" and more").unwrap();
    assert_eq!(text, "kept");

    // Neither a second mount of the same disk, nor space that is taken by a file without a name.
    let busy = disk.remove().unwrap_err();
    assert!(matches!(busy, DiskError::InUse { .. }) && busy.is_retryable(), "{busy}");
    assert!(place.path("a/disk.img").exists());
    assert!(matches!(disk.mount(&place.lower()), Err(DiskError::InUse { .. })));

    drop(user);
    unmount(&disk);
    disk.mount(&place.lower()).unwrap();
    assert_eq!(read(&disk, "file"), "kept and more");
    disk.remove().unwrap();
    place.assert_nothing_left();
}

#[test]
fn who_leaves_soon_is_waited_for() {
    let place = Place::new();
    let disk = place.mounted("a");
    let user = File::create(disk.root().join("file")).unwrap();
    let leaves = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(user);
    });
    unmount(&disk);
    leaves.join().unwrap();
    disk.remove().unwrap();
}
