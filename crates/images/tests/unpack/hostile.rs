//! Archives that want out. Each is refused or does nothing outside of its folder, which
//! [`Ground::unpack`] checks every time.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use emergent_images::unpack::UnpackError;
use tar::EntryType;

use crate::archives::{Archive, Ground, header, names};

fn refused(archive: Archive) -> UnpackError {
    Ground::new().unpack(&archive.bytes()).expect_err("it must be refused")
}

#[test]
fn absolute_paths_are_refused() {
    let ground = Ground::new();
    let target = ground.outside().join("secret");
    let archive = Archive::default().file(target.as_os_str().as_bytes(), "stolen");
    assert!(matches!(ground.unpack(&archive.bytes()), Err(UnpackError::Outside { .. })));
}

#[test]
fn paths_with_dots_are_refused() {
    for path in ["../outside/secret", "../../outside/secret", "usr/../../outside/secret", "usr/..", ".."] {
        assert!(matches!(refused(Archive::default().file(path, "x")), UnpackError::Outside { .. }), "{path}");
    }
    let by_record = Archive::default().records(&[("path", b"../outside/secret")]).file("fine", "x");
    assert!(matches!(refused(by_record), UnpackError::Outside { .. }));
    let by_long_name =
        Archive::default().entry(EntryType::GNULongName, "name", "", "../outside/secret\0").file("fine", "x");
    assert!(matches!(refused(by_long_name), UnpackError::Outside { .. }));
}

#[test]
fn nothing_is_made_through_a_link() {
    let ground = Ground::new();
    let outside = ground.outside();
    for target in [outside.as_os_str().as_bytes(), b"../../outside", b"/proc/self/cwd"] {
        for last in [
            Archive::default().link("way", target).file("way/secret", "stolen"),
            Archive::default().link("way", target).folder("way/new"),
            Archive::default().link("way", target).link("way/new", "x"),
            Archive::default().file("real", "x").link("way", target).hard_link("way/new", "real"),
            Archive::default().link("way", target).entry(EntryType::Fifo, "way/new", "", ""),
            Archive::default().link("way", target).file("way/a/b/c", "x"),
        ] {
            let answer = ground.unpack(&last.bytes());
            assert!(matches!(answer, Err(UnpackError::NotThroughFolders { .. })), "{answer:?}");
        }
    }
}

#[test]
fn a_file_takes_the_place_of_a_link_of_its_name() {
    let ground = Ground::new();
    let secret = ground.outside().join("secret");
    let archive = Archive::default().link("way", secret.as_os_str().as_bytes()).file("way", "mine");
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(ground.read("way"), "mine");
    assert!(!ground.root().join("way").is_symlink());
}

#[test]
fn a_folder_takes_the_place_of_a_link_of_its_name() {
    let ground = Ground::new();
    let outside = ground.outside();
    let archive = Archive::default()
        .link("way", outside.as_os_str().as_bytes())
        .folder("way")
        .file("way/secret", "mine");
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(ground.read("way/secret"), "mine");
}

#[test]
fn a_folder_that_became_a_link_is_not_entered_any_more() {
    // The folder is open from the entry before; it cannot be replaced behind its descriptor.
    let archive = Archive::default()
        .folder("a")
        .file("a/one", "1")
        .link("a", "../../outside")
        .file("a/secret", "stolen");
    assert!(matches!(refused(archive), UnpackError::FolderInTheWay { .. }));
}

#[test]
fn hard_links_stay_inside() {
    let ground = Ground::new();
    let secret = ground.outside().join("secret");
    let absolute = Archive::default().hard_link("copy", secret.as_os_str().as_bytes());
    assert!(matches!(ground.unpack(&absolute.bytes()), Err(UnpackError::Outside { .. })));
    let upwards = Archive::default().hard_link("copy", "../../outside/secret");
    assert!(matches!(ground.unpack(&upwards.bytes()), Err(UnpackError::Outside { .. })));
    let by_link = Archive::default()
        .link("way", ground.outside().as_os_str().as_bytes())
        .hard_link("copy", "way/secret");
    assert!(matches!(ground.unpack(&by_link.bytes()), Err(UnpackError::NotThroughFolders { .. })));
    for target in ["missing", "missing/too", "folder", "./"] {
        let archive = Archive::default().folder("folder").hard_link("copy", target);
        let answer = ground.unpack(&archive.bytes());
        assert!(matches!(answer, Err(UnpackError::HardLink { .. })), "{target}: {answer:?}");
    }
}

#[test]
fn a_hard_link_to_a_link_is_not_a_way_to_write_through_it() {
    let ground = Ground::new();
    let secret = ground.outside().join("secret");
    let archive = Archive::default()
        .link("way", secret.as_os_str().as_bytes())
        .hard_link("second", "way")
        .file("second", "mine");
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(ground.read("second"), "mine");
    assert!(ground.root().join("way").is_symlink());
}

#[test]
fn the_last_of_two_files_counts_and_the_first_keeps_its_links() {
    let ground = Ground::new();
    let archive = Archive::default().file("a", "first").hard_link("b", "a").file("a", "second, and longer");
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!((ground.read("a").as_str(), ground.read("b").as_str()), ("second, and longer", "first"));
}

#[test]
fn a_hard_link_to_itself_keeps_the_file() {
    let ground = Ground::new();
    let archive =
        Archive::default().file("a", "kept").hard_link("a", "a").hard_link("b", "a").hard_link("b", "a");
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!((ground.read("a").as_str(), ground.read("b").as_str()), ("kept", "kept"));
}

#[test]
fn a_file_does_not_replace_a_folder() {
    for archive in [
        Archive::default().folder("a").file("a/b", "x").file("a", "x"),
        Archive::default().folder("a").link("a", "/"),
        Archive::default().folder("a").file("x", "x").hard_link("a", "x"),
        Archive::default().link("./", "/etc"),
        Archive::default().file(".", "x"),
    ] {
        assert!(matches!(refused(archive), UnpackError::FolderInTheWay { .. }));
    }
}

#[test]
fn devices_are_left_out() {
    let ground = Ground::new();
    let archive = Archive::default()
        .entry(EntryType::Char, "dev/null", "", "")
        .entry(EntryType::Block, "dev/sda", "", "")
        .entry(EntryType::Fifo, "pipe", "", "")
        .file("file", "x");
    let unpacked = ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(unpacked.counts.devices_left_out, 2);
    assert_eq!(names(&ground.root()), ["file", "pipe"]);
    assert!(std::fs::symlink_metadata(ground.root().join("pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn names_need_not_be_text() {
    let ground = Ground::new();
    let name = b"caf\xe9 \xff\n\x01";
    ground.unpack(&Archive::default().file(name, "x").bytes()).unwrap();
    let entry = std::fs::read_dir(ground.root()).unwrap().next().unwrap().unwrap();
    assert_eq!(entry.file_name().as_bytes(), name);
}

#[test]
fn names_with_zero_bytes_are_refused() {
    let archive = Archive::default().records(&[("path", b"a\0b")]).file("fine", "x");
    assert!(matches!(refused(archive), UnpackError::Outside { .. }));
    let archive = Archive::default().records(&[("linkpath", b"a\0b")]).link("fine", "x");
    assert!(matches!(refused(archive), UnpackError::Malformed { .. }));
}

#[test]
fn sparse_maps_and_unknown_kinds_are_refused() {
    let sparse = Archive::default().raw(&header(EntryType::GNUSparse, b"big", b"", 0), b"");
    assert!(matches!(refused(sparse), UnpackError::Unsupported { kind: "sparse file", .. }));
    let by_record = Archive::default()
        .records(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"99999999999999")])
        .file("big", "x");
    assert!(matches!(refused(by_record), UnpackError::Unsupported { kind: "sparse file", .. }));
    let unknown = Archive::default().entry(EntryType::new(b'V'), "volume", "", "");
    assert!(matches!(refused(unknown), UnpackError::Unsupported { .. }));
}

#[test]
fn content_where_there_can_be_none_is_refused() {
    // A reader that skips it and one that does not would see different archives.
    let hidden = Archive::default().file("hidden", "x").bytes();
    for kind in [EntryType::Directory, EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char]
    {
        let archive = Archive::default().file("a", "x").entry(kind, "b", "a", &hidden);
        assert!(matches!(refused(archive), UnpackError::Malformed { .. }), "{kind:?}");
    }
}

#[test]
fn a_size_in_records_is_the_size() {
    // What is read as content must not be read as entries as well.
    let hidden = Archive::default().file("hidden", "x").cut_off();
    let ground = Ground::new();
    let size = hidden.len().to_string();
    let archive = Archive::default()
        .records(&[("size", size.as_bytes())])
        .raw(&header(EntryType::Regular, b"a", b"", 0), &hidden)
        .file("b", "y");
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(names(&ground.root()), ["a", "b"]);
    assert_eq!(std::fs::metadata(ground.root().join("a")).unwrap().len(), hidden.len() as u64);
}

#[test]
fn damaged_archives_are_refused() {
    let whole = Archive::default().file("a", "x").bytes();
    let mut wrong_sum = whole.clone();
    wrong_sum[0] = b'b';
    assert!(matches!(Ground::new().unpack(&wrong_sum), Err(UnpackError::Malformed { .. })));
    assert!(matches!(Ground::new().unpack(&[b'x'; 2048]), Err(UnpackError::Malformed { .. })));
    let dangling = Archive::default().records(&[("path", b"b")]);
    assert!(matches!(refused(dangling), UnpackError::Malformed { .. }));
    for length in [0, 1, 511, 512, 513, 1024] {
        let answer = Ground::new().unpack(&whole[..length]);
        assert!(matches!(answer, Err(UnpackError::CutOff { .. })), "{length}: {answer:?}");
    }
}

#[test]
fn owners_that_mean_something_else_are_refused() {
    for owner in [u64::from(u32::MAX), 1 << 33] {
        let owner = owner.to_string();
        let archive = Archive::default().records(&[("uid", owner.as_bytes())]).file("a", "x");
        assert!(matches!(refused(archive), UnpackError::Owner { .. }));
    }
}

#[test]
fn attributes_of_overlays_are_not_for_images() {
    let ground = Ground::new();
    let archive = Archive::default()
        .records(&[
            ("SCHILY.xattr.trusted.overlay.redirect", b"/elsewhere"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
            ("SCHILY.xattr.security.selinux", b"x"),
            ("SCHILY.xattr.system.posix_acl_access", b"x"),
        ])
        .folder("a");
    let unpacked = ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(unpacked.counts.attributes_left_out, 4);
    let mut list = [0_u8; 1024];
    let length = rustix::fs::listxattr(ground.root().join("a"), &mut list).unwrap();
    assert!(!list[..length].escape_ascii().to_string().contains("overlay"));
}

#[test]
fn runs_of_zeroes_take_no_room() {
    let ground = Ground::new();
    let mut content = vec![0; 8 << 20];
    content[4 << 20] = 1;
    let archive = Archive::default().file("holes", &content).file("zeroes", vec![0; 1 << 20]);
    ground.unpack(&archive.bytes()).unwrap();
    assert_eq!(std::fs::read(ground.root().join("holes")).unwrap(), content);
    for (name, length) in [("holes", 8 << 20), ("zeroes", 1 << 20)] {
        let metadata = std::fs::metadata(ground.root().join(name)).unwrap();
        assert_eq!(metadata.len(), length);
        assert!(metadata.blocks() * 512 < 1 << 20, "{name}: {} blocks", metadata.blocks());
    }
}
