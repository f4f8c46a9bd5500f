//! What a crash leaves, who may be at work at the same time, and who may look.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use emergent_images::unpack::{Limits, UnpackError, remove_leftovers, unpack};

use crate::archives::{Archive, Ground, names};

fn crashed(ground: &Ground, name: &str) {
    let partial = ground.images().join(name);
    fs::create_dir_all(partial.join("deep/er")).unwrap();
    fs::write(partial.join("deep/file"), "half").unwrap();
    std::os::unix::fs::symlink(ground.outside(), partial.join("link")).unwrap();
    fs::set_permissions(ground.images(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn the_next_attempt_begins_anew() {
    let ground = Ground::new();
    crashed(&ground, "root.partial");
    ground.unpack(&Archive::default().file("a", "x").bytes()).unwrap();
    assert_eq!(names(&ground.root()), ["a"]);
    assert_eq!(names(&ground.images()), ["root"]);
}

#[test]
fn leftovers_of_images_nobody_asks_for_are_removed() {
    let ground = Ground::new();
    ground.unpack(&Archive::default().file("a", "x").bytes()).unwrap();
    crashed(&ground, "another.partial");
    fs::create_dir(ground.images().join("not-a-leftover")).unwrap();
    let removed = remove_leftovers(&ground.images()).unwrap();
    assert_eq!(removed, [ground.images().join("another.partial")]);
    assert_eq!(names(&ground.images()), ["not-a-leftover", "root"]);
    ground.assert_outside_is_untouched();
    assert_eq!(remove_leftovers(&ground.images().join("missing")).unwrap().len(), 0);
}

/// Waits in the middle until it is told to go on.
struct Waiting {
    bytes: io::Cursor<Vec<u8>>,
    started: Option<mpsc::Sender<()>>,
    go_on: mpsc::Receiver<()>,
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(started) = self.started.take() {
            started.send(()).unwrap();
            self.go_on.recv().unwrap();
        }
        self.bytes.read(buffer)
    }
}

#[test]
fn one_at_a_time() {
    let ground = Ground::new();
    let archive = Archive::default().file("a", "x").bytes();
    let (started, wait_for_start) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let first = Waiting { bytes: io::Cursor::new(archive.clone()), started: Some(started), go_on };
    let root = ground.root();
    let thread = std::thread::spawn(move || unpack(first, &root, &Limits::default()));
    wait_for_start.recv().unwrap();

    let second = unpack(archive.as_slice(), &ground.root(), &Limits::default());
    assert!(matches!(second, Err(UnpackError::Busy { .. })), "{second:?}");
    assert_eq!(remove_leftovers(&ground.images()).unwrap().len(), 0, "it is no leftover");

    let_go.send(()).unwrap();
    thread.join().unwrap().unwrap();
    assert_eq!(ground.read("a"), "x");
    assert_eq!(names(&ground.images()), ["root"]);
}

#[test]
fn other_accounts_must_not_get_at_set_uid_programs() {
    let ground = Ground::new();
    fs::create_dir(ground.images()).unwrap();
    for mode in [0o755, 0o710, 0o701] {
        fs::set_permissions(ground.images(), fs::Permissions::from_mode(mode)).unwrap();
        let answer = ground.unpack(&Archive::default().file("a", "x").bytes());
        assert!(matches!(answer, Err(UnpackError::Exposed { .. })), "{mode:o}: {answer:?}");
    }
    fs::remove_dir(ground.images()).unwrap();
    ground.unpack(&Archive::default().file("a", "x").bytes()).unwrap();
    assert_eq!(fs::metadata(ground.images()).unwrap().permissions().mode() & 0o777, 0o700);
}
