//! The real program, with packages from the host's own sources.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use emergent_images::debian::{BuildError, Options, build};
use emergent_images::unpack::{Limits, unpack};

use crate::chroot::run;

/// Whether something below a folder is still mounted, running or there.
fn left(folder: &Path) -> Vec<String> {
    let name = folder.to_str().unwrap();
    let mut left: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(name)).map(str::to_owned));
    for process in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let own = process.file_name() == *std::process::id().to_string();
        if !own && String::from_utf8_lossy(&environment).contains(name) {
            left.push(process.path().display().to_string());
        }
    }
    left
}

fn options(work: &Path) -> Options {
    Options { packages: vec!["file".into()], work_folder: work.to_owned(), ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_packages_works() {
    let folder = tempfile::tempdir().unwrap();
    let (work, target) = (folder.path().join("work"), folder.path().join("image.tar"));
    fs::create_dir(&work).unwrap();
    let mut lines = 0;
    let built = build(options(&work), &target, |_| lines += 1, std::future::pending()).await.unwrap();
    println!("{} MiB in {:?}, {lines} lines", built.bytes >> 20, built.took);
    assert_eq!(left(&work), [""; 0]);
    assert!(lines > 20, "{lines}");

    let root = folder.path().join("images/root");
    let unpacked = unpack(fs::File::open(&target).unwrap(), &root, &Limits::default()).unwrap();
    println!("{} entries, unpacked in {:?}", unpacked.counts.made, unpacked.took);
    assert!(unpacked.counts.devices_left_out > 0, "the program puts devices into its archives");
    run(&root, &["mknod", "/dev/null", "c", "1", "3"]);
    assert_eq!(run(&root, &["id", "user"]), "uid=1000(user) gid=1000(user) groups=1000(user)");
    let as_user = ["setpriv", "--reuid=user", "--regid=user", "--clear-groups"];
    run(&root, &[&as_user[..], &["touch", "/home/user/a", "/workspace/a"]].concat());
    assert!(run(&root, &["file", "/bin/bash"]).contains("ELF"));
    run(&root, &["apt-get", "check"]);
    assert_eq!(run(&root, &["dpkg", "--audit"]), "");
    let lists = fs::read_dir(root.join("etc/apt/sources.list.d")).unwrap().count();
    assert!(lists > 0 || root.join("etc/apt/sources.list").exists(), "it knows where packages come from");
    assert_eq!(fs::read(root.join("etc/machine-id")).unwrap(), b"");
    for absent in ["etc/resolv.conf", "etc/hostname", "usr/share/man/man1"] {
        assert!(fs::symlink_metadata(root.join(absent)).is_err(), "{absent}");
    }
    assert!(root.join("usr/share/doc/bash/copyright").exists(), "licences stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_in_the_middle_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (work, target) = (folder.path().join("work"), folder.path().join("image.tar"));
    fs::create_dir(&work).unwrap();
    let (in_the_middle, wait) = tokio::sync::oneshot::channel();
    let mut in_the_middle = Some(in_the_middle);
    let mut cancelled = Instant::now();
    let progress = |line: &str| {
        // Its own mounts are there by then, and scripts of packages run.
        if let Some(now) = in_the_middle.take_if(|_| line.contains("Setting up ")) {
            cancelled = Instant::now();
            now.send(()).unwrap();
        }
    };
    let cancel = async {
        wait.await.unwrap();
    };
    let answer = build(options(&work), &target, progress, cancel).await;
    println!("ended {:?} after it was cancelled", cancelled.elapsed());
    assert!(matches!(answer, Err(BuildError::Cancelled)), "{answer:?}");
    assert_eq!(left(&work), [""; 0]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the working folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_in_the_middle_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (work, target) = (folder.path().join("work"), folder.path().join("image.tar"));
    fs::create_dir(&work).unwrap();
    {
        let mut building = Box::pin(build(options(&work), &target, |_| {}, std::future::pending()));
        assert!(tokio::time::timeout(Duration::from_secs(4), &mut building).await.is_err());
        assert_ne!(left(&work), [""; 0], "it was at work");
    }
    let started = Instant::now();
    while !left(&work).is_empty() || fs::read_dir(folder.path()).unwrap().count() > 1 {
        assert!(started.elapsed() < Duration::from_secs(90), "{:?}", left(&work));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
