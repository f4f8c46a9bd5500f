//! What only root can give to a file, and a tree that comes out as it went in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use emergent_images::unpack::{Limits, unpack};

/// Everything there is to know about a tree, by path.
fn described(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut inodes: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        let full = root.join(&path);
        let metadata = fs::symlink_metadata(&full).unwrap();
        let mut text = format!(
            "{:o} {}:{} {}.{}",
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        if metadata.is_dir() {
            let mut names: Vec<OsString> =
                fs::read_dir(&full).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            open.extend(names.into_iter().rev().map(|name| path.join(name)));
        } else if metadata.is_symlink() {
            text += &format!(" -> {:?}", fs::read_link(&full).unwrap());
        } else if metadata.is_file() {
            let first = inodes.entry(metadata.ino()).or_insert_with(|| path.clone());
            let content = fs::read(&full).unwrap();
            let sum = content.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
            text += &format!(" {} bytes, sum {sum}, first as {first:?}", content.len());
        }
        if !metadata.is_symlink() && !metadata.mode().is_fifo() {
            for name in ["user.note", "security.capability"] {
                let mut value = [0; 64];
                if let Ok(length) = rustix::fs::getxattr(&full, name, &mut value) {
                    text += &format!(" {name}={}", value[..length].escape_ascii());
                }
            }
        }
        found.insert(path, text);
    }
    found
}

trait IsFifo {
    fn is_fifo(&self) -> bool;
}

impl IsFifo for u32 {
    fn is_fifo(&self) -> bool {
        self & 0o170000 == 0o010000
    }
}

#[test]
fn a_tree_comes_out_as_it_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("usr/bin/deep/er")).unwrap();
    fs::create_dir(tree.join("closed")).unwrap();
    fs::write(tree.join("usr/bin/program"), "program").unwrap();
    fs::hard_link(tree.join("usr/bin/program"), tree.join("usr/bin/same")).unwrap();
    fs::write(tree.join("closed/of-user"), "mine").unwrap();
    fs::write(tree.join(format!("{}-long", "name".repeat(50))), "long").unwrap();
    fs::write(tree.join("with-capability"), "ping").unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 5 << 20).unwrap();
    symlink("/etc/shadow", tree.join("link")).unwrap();
    lchown(tree.join("link"), Some(1000), Some(1001)).unwrap();
    chown(tree.join("closed"), Some(1000), Some(1000)).unwrap();
    chown(tree.join("closed/of-user"), Some(1000), Some(50)).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(rustix::fs::CWD, tree.join("pipe"), fifo, mode, 0).unwrap();
    for (path, mode) in [
        ("usr/bin/program", 0o4755),
        ("closed/of-user", 0o2750),
        ("closed", 0o2700),
        ("usr/bin/deep", 0o1777),
        ("usr/bin/deep/er", 0o555),
    ] {
        fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(tree.join("closed"), "user.note", b"a\nb\0c", flags).unwrap();
    // Version 2, may open raw sockets.
    let mut capability = [0; 20];
    capability[..9].copy_from_slice(&[1, 0, 0, 2, 0, 32, 0, 0, 0]);
    rustix::fs::setxattr(tree.join("with-capability"), "security.capability", &capability, flags).unwrap();

    let mut tar = Command::new("tar")
        .args(["--format=pax", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C"])
        .arg(&tree)
        .args(["-cf", "-", "."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = folder.path().join("images/root");
    let unpacked = unpack(tar.stdout.take().unwrap(), &out, &Limits::default()).unwrap();
    tar.kill().ok();
    tar.wait().unwrap();
    assert_eq!(described(&out), described(&tree));
    assert_eq!(unpacked.counts.attributes_left_out, 0);
    assert!(fs::metadata(out.join("sparse")).unwrap().blocks() * 512 < 1 << 20);
}
