//! An image of this very host, unpacked and used.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use emergent_images::minimal::{Options, Origin, Plan};
use emergent_images::unpack::{Limits, unpack_stream};

use crate::chroot::run;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_this_host_works() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("images/root");
    let started = Instant::now();
    let plan = Plan::of_host(&Options::default()).unwrap();
    let planned = started.elapsed();
    println!("{:?}: {} entries, {} MiB", plan.origin(), plan.entries(), plan.bytes() >> 20);
    let origin = plan.origin();
    let unpacked = unpack_stream(plan.into_stream(), root.clone(), Limits::default()).await.unwrap();
    println!("planned in {planned:?}, written and unpacked in {:?}", unpacked.took);

    walk(&root, &mut |path, metadata| {
        let at = path.strip_prefix(&root).unwrap();
        let shown = at.display();
        let kind = metadata.file_type();
        assert!(metadata.is_file() || metadata.is_dir() || kind.is_symlink(), "{shown}: a device or pipe");
        if !kind.is_symlink() {
            assert_eq!(metadata.mode() & 0o6000, 0, "{shown}: set-uid");
            assert!(metadata.mode() & 0o004 != 0 || at == Path::new("root"), "{shown}: not for everybody");
            let owner = if at == Path::new("home/user") { 1000 } else { 0 };
            assert_eq!((metadata.uid(), metadata.gid()), (owner, owner), "{shown}");
        }
        let name = at.file_name().unwrap().to_string_lossy();
        assert!(
            !name.starts_with("ssh_host_") && !shown.to_string().starts_with("etc/ssl/private/"),
            "{shown}"
        );
    });
    for absent in
        ["shadow", "gshadow", "machine-id", "hostname", "hosts", "gitconfig", "npmrc", "apt/auth.conf"]
    {
        assert!(fs::symlink_metadata(root.join("etc").join(absent)).is_err(), "{absent}");
    }
    for absent in ["usr/share/doc", "usr/share/man", "var/cache/debconf/passwords.dat", "var/lib/dpkg/lock"] {
        assert!(fs::symlink_metadata(root.join(absent)).is_err(), "{absent}");
    }
    let size = |path: &Path| fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
    assert_eq!(size(&root.join("usr/bin/bash")), size(Path::new("/usr/bin/bash")));

    // Programs count on it, and a container's runtime brings it.
    run(&root, &["mknod", "/dev/null", "c", "1", "3"]);
    run(&root, &["bash", "-c", "echo a b | sed s/a/c/ | awk '{ print $2 }' | grep -q b"]);
    run(&root, &["git", "init", "-q", "/workspace/repository"]);
    run(
        &root,
        &["python3", "-c", "import json, sqlite3, ssl; assert ssl.create_default_context().get_ca_certs()"],
    );
    run(&root, &["perl", "-e", "use POSIX; exit(floor(0.5))"]);
    run(&root, &["curl", "--version"]);
    run(&root, &["tar", "-cf", "/tmp/a.tar", "/etc/passwd"]);
    assert_eq!(run(&root, &["id", "-u", "user"]), "1000");
    let as_user = ["setpriv", "--reuid=user", "--regid=user", "--clear-groups"];
    run(&root, &[&as_user[..], &["touch", "/home/user/a", "/workspace/a", "/tmp/a"]].concat());
    if let Origin::Packages(count) = origin {
        assert_eq!(run(&root, &["dpkg", "--audit"]), "");
        run(&root, &["apt-get", "check"]);
        assert_eq!(run(&root, &["dpkg-query", "-W"]).lines().count(), count);
    }
}

fn walk(folder: &Path, look: &mut impl FnMut(&Path, &Metadata)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        look(&path, &metadata);
        if metadata.is_dir() {
            walk(&path, look);
        }
    }
}
