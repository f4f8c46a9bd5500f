//! Lower layers that somebody made to reach the host.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use emergent_host_disk::DiskError;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Place, unmount, write};

const EXTRA: [&str; 8] = ["workspace", "home", "root", "opt", "srv", "mnt", "var", "data"];

/// What is in a folder, with everything that a touch would change.
fn seen(folder: &Path) -> Vec<(String, u32, i64, i64)> {
    let this = fs::metadata(folder).unwrap();
    let mut all = vec![(".".to_owned(), this.mode(), this.ctime(), this.ctime_nsec())];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let found = fs::symlink_metadata(entry.path()).unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        all.push((name, found.mode(), found.ctime(), found.ctime_nsec()));
    }
    all.sort();
    all
}

#[test]
fn links_lead_nowhere_near_the_host() {
    let place = Place::new();
    let victim = place.path("victim");
    fs::create_dir(&victim).unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(victim.join("kept"), "kept").unwrap();
    let lower = place.lower();
    let outwards = format!("{}{}", "../".repeat(40), victim.strip_prefix("/").unwrap().display());
    symlink(&victim, lower.join("workspace")).unwrap();
    symlink(&outwards, lower.join("home")).unwrap();
    symlink(victim.join("made"), lower.join("root")).unwrap();
    symlink("opt", lower.join("opt")).unwrap();
    symlink("/proc/self/root", lower.join("way-out")).unwrap();
    fs::write(lower.join("srv"), "a file").unwrap();
    mknodat(CWD, lower.join("mnt"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::create_dir(lower.join("var")).unwrap();
    fs::set_permissions(lower.join("var"), fs::Permissions::from_mode(0o711)).unwrap();
    symlink(&victim, lower.join("var/link")).unwrap();
    for own in ["proc", "sys", "dev", "run", "tmp", "usr"] {
        fs::create_dir(lower.join(own)).unwrap();
    }
    let (before, lower_before) = (seen(&victim), seen(&lower));

    let disk = place.mounted("a");
    assert_eq!(disk.top_folders(&EXTRA).unwrap(), ["data", "etc", "usr", "var"]);
    assert_eq!(disk.top_folders(&EXTRA).unwrap(), ["data", "etc", "usr", "var"]);
    assert_eq!(fs::read_link(disk.root().join("workspace")).unwrap(), victim);
    let mode = |name: &str| fs::symlink_metadata(disk.root().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("data"), mode("var")), (0o755, 0o711));
    // The same once a sandbox could have written there.
    symlink(&victim, disk.root().join("app")).unwrap();
    assert_eq!(disk.top_folders(&["app"]).unwrap(), ["data", "etc", "usr", "var"]);
    disk.remove().unwrap();
    assert_eq!((seen(&victim), seen(&lower)), (before, lower_before));
}

#[test]
fn missing_folders_are_made_with_their_modes() {
    let place = Place::new();
    let disk = place.mounted("a");
    let mut expected = [&EXTRA[..], &["etc"]].concat();
    expected.sort_unstable();
    assert_eq!(disk.top_folders(&EXTRA).unwrap(), expected);
    for (name, mode) in [("workspace", 0o777), ("root", 0o700), ("home", 0o755), ("data", 0o755)] {
        let made = fs::metadata(disk.root().join(name)).unwrap();
        assert_eq!((made.mode() & 0o7777, made.uid()), (mode, 0), "{name}");
    }
    // A sandbox's own choice stays.
    fs::set_permissions(disk.root().join("home"), fs::Permissions::from_mode(0o700)).unwrap();
    disk.top_folders(&EXTRA).unwrap();
    assert_eq!(fs::metadata(disk.root().join("home")).unwrap().mode() & 0o7777, 0o700);
    disk.remove().unwrap();
}

#[test]
fn only_names_are_taken_and_only_so_many() {
    let place = Place::new();
    let disk = place.mounted("a");
    for name in ["..", "../a", "/etc", "a/b", "", "."] {
        assert!(matches!(disk.top_folders(&[name]), Err(DiskError::BadName { .. })), "{name:?}");
    }
    for number in 0..256 {
        fs::create_dir(disk.root().join(format!("folder-{number}"))).unwrap();
    }
    assert!(matches!(disk.top_folders(&[]), Err(DiskError::TooManyFolders { .. })));
    unmount(&disk);
    assert!(matches!(disk.top_folders(&["a"]), Err(DiskError::NotMounted { .. })));
    disk.remove().unwrap();
}

#[test]
fn devices_of_an_image_cannot_be_opened() {
    let place = Place::new();
    let null = place.lower().join("null");
    mknodat(CWD, &null, FileType::CharacterDevice, Mode::from_raw_mode(0o666), rustix::fs::makedev(1, 3))
        .unwrap();
    let disk = place.mounted("a");
    let refused = fs::read(disk.root().join("null")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    write(&disk, "file", "x");
    disk.remove().unwrap();
}
