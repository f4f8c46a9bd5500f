//! A process that is killed, after every single thing that it does.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use emergent_host_disk::LayeredDisk;

use crate::support::{Place, read, unmount, write};
use crate::tracer::{Outcome, run_and_kill_after};

/// More than any operation takes.
const MANY: usize = 1000;

/// Kills the operation after each of its calls, and looks at what is left.
pub(crate) fn after_every_call(arguments: &[&Path], mut look: impl FnMut(usize)) {
    for calls in 1..MANY {
        let outcome = run_and_kill_after(calls, arguments);
        look(calls);
        if outcome == Outcome::Done {
            assert!(calls > 10, "{calls} calls are no operation");
            return;
        }
    }
    panic!("there is no end");
}

/// A loop device belongs to a mount, or it is about to go.
fn assert_no_stray_loop_device(place: &Place) {
    if !place.census().iter().any(|line| line.contains(" ext4 ")) {
        place.assert_nothing_left();
    }
}

#[test]
fn a_create_that_was_killed_can_be_repeated_or_undone() {
    let place = Place::new();
    // The template is there, so that what is counted is the disk alone.
    place.create("first").remove().unwrap();
    let folder = place.path("a");
    let arguments = [Path::new("create"), &folder, &place.templates()];
    after_every_call(&arguments, |calls| {
        if calls % 2 == 0 {
            LayeredDisk::remove_folder(&folder).unwrap();
            assert!(place.disks().is_empty());
        }
        let disk = LayeredDisk::open(&folder).unwrap_or_else(|_| place.create("a"));
        disk.mount(&place.lower()).unwrap();
        write(&disk, "file", "x");
        disk.remove().unwrap();
        assert!(place.disks().is_empty());
    });
    place.assert_nothing_left();
}

#[test]
fn a_mount_that_was_killed_is_completed() {
    let place = Place::new();
    let disk = place.mounted("a");
    write(&disk, "file", "kept");
    unmount(&disk);
    let (mut unmounted, mut half) = (0, 0);
    after_every_call(&[Path::new("mount"), disk.folder(), &place.lower()], |_| {
        assert_no_stray_loop_device(&place);
        match place.census().len() {
            0 => unmounted += 1,
            2 => half += 1,
            _ => {}
        }
        disk.mount(&place.lower()).unwrap();
        assert_eq!(place.census().len(), 3, "{:?}", place.census());
        assert_eq!(read(&disk, "file"), "kept");
        unmount(&disk);
    });
    assert!(unmounted > 5 && half > 5, "{unmounted}, {half}");
    disk.remove().unwrap();
    place.assert_nothing_left();
}

#[test]
fn a_removal_that_was_killed_is_completed() {
    let place = Place::new();
    let folder = place.path("a");
    place.mounted("a");
    after_every_call(&[Path::new("remove"), &folder], |calls| {
        assert_no_stray_loop_device(&place);
        if calls % 2 == 0
            && let Ok(disk) = LayeredDisk::open(&folder)
        {
            // As long as there is a disk it can still be used.
            disk.mount(&place.lower()).unwrap();
        }
        LayeredDisk::remove_folder(&folder).unwrap();
        assert!(place.disks().is_empty());
        place.assert_nothing_left();
        place.mounted("a");
    });
    LayeredDisk::remove_folder(&folder).unwrap();
    place.assert_nothing_left();
}

#[test]
fn a_snapshot_that_was_killed_leaves_no_disk_frozen() {
    let place = Place::new();
    let disk = place.mounted("a");
    let snapshot = place.path("snapshot");
    let mut complete = 0;
    after_every_call(&[Path::new("snapshot"), disk.folder(), &snapshot], |calls| {
        // What the next server does; or the end of the sandbox.
        if calls % 2 == 0 {
            LayeredDisk::open(disk.folder()).unwrap();
        } else {
            unmount(&disk);
            disk.mount(&place.lower()).unwrap();
        }
        let (done, is_done) = mpsc::channel();
        let path = disk.root().join("file");
        std::thread::spawn(move || done.send(std::fs::write(path, "x")));
        is_done.recv_timeout(Duration::from_secs(10)).expect("a write waits for ever").unwrap();
        // All of it or nothing.
        if snapshot.exists() {
            complete += 1;
            let copy = LayeredDisk::create_from_snapshot(&place.path("b"), &snapshot).unwrap();
            copy.mount(&place.lower()).unwrap();
            copy.remove().unwrap();
            std::fs::remove_file(&snapshot).unwrap();
        }
    });
    assert!(complete > 0);
    assert!(!place.path(".snapshot.partial").exists(), "the last one has removed what the others left");
    disk.remove().unwrap();
    place.assert_nothing_left();
}
