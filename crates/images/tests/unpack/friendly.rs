//! What an honest archive has is there afterwards.

use std::os::unix::fs::MetadataExt;

use emergent_images::unpack::{UnpackError, unpack};
use tar::EntryType;

use crate::archives::{Archive, Ground, header};

#[test]
fn files_folders_links_and_times() {
    let ground = Ground::new();
    let long = format!("usr/share/{}/file", "long-name-".repeat(15));
    let archive = Archive::default()
        .folder("./")
        .folder("./usr/")
        .file("./usr/program", "run me")
        .link("bin", "usr/bin")
        .hard_link("usr/same", "usr/program")
        .entry(EntryType::GNULongName, "././@LongLink", "", format!("{long}\0"))
        .file("shortened", "long")
        .file("implied/folder/file", "x");
    let unpacked = ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(ground.read("usr/program"), "run me");
    assert_eq!(ground.read(&long), "long");
    assert_eq!(std::fs::read_link(ground.root().join("bin")).unwrap().to_str(), Some("usr/bin"));
    let metadata = |path: &str| std::fs::symlink_metadata(ground.root().join(path)).unwrap();
    assert_eq!(metadata("usr/same").ino(), metadata("usr/program").ino());
    for path in ["usr/program", "bin", "usr", "."] {
        assert_eq!(metadata(path).mtime(), 1_700_000_000, "{path}");
    }
    assert_eq!(metadata(".").mode() & 0o7777, 0o755);
    assert_eq!(metadata("implied/folder").mode() & 0o7777, 0o755);
    assert_eq!(unpacked.counts.made, 6);
}

#[test]
fn times_finer_than_a_second_and_permissions() {
    let ground = Ground::new();
    let mut file = header(EntryType::Regular, b"a", b"", 0);
    file.set_mode(0o4750);
    let archive = Archive::default().records(&[("mtime", b"1600000000.123456789")]).raw(&file, b"");
    ground.unpack(&archive.bytes()).unwrap();
    let found = std::fs::metadata(ground.root().join("a")).unwrap();
    assert_eq!((found.mtime(), found.mtime_nsec()), (1_600_000_000, 123_456_789));
    assert_eq!(found.mode() & 0o7777, 0o4750);
}

#[test]
fn attributes_with_any_bytes() {
    let ground = Ground::new();
    let value = b"two\nlines = \0\xff";
    let archive = Archive::default().records(&[("SCHILY.xattr.user.note", value)]).file("a", "");
    let unpacked = ground.unpack(&archive.bytes()).unwrap();
    let mut found = [0_u8; 64];
    match rustix::fs::getxattr(ground.root().join("a"), "user.note", &mut found) {
        Ok(length) => assert_eq!(&found[..length], value),
        // A file system without attributes says so and goes on.
        Err(_) => assert_eq!(unpacked.counts.attributes_left_out, 1),
    }
}

#[test]
fn a_folder_that_is_there_is_not_touched() {
    let ground = Ground::new();
    ground.unpack(&Archive::default().file("a", "first").bytes()).unwrap();
    let again = unpack(
        Archive::default().file("a", "second").bytes().as_slice(),
        &ground.root(),
        &Default::default(),
    );
    assert!(matches!(again, Err(UnpackError::Exists { .. })), "{again:?}");
    assert_eq!(ground.read("a"), "first");
}
