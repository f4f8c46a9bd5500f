//! Hosts whose package manager is not known.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use emergent_images::minimal::{MinimalError, Options, Origin, Plan};
use tar::EntryType;

use crate::hosts::Host;

#[test]
fn the_system_comes_along_and_the_rest_stays() {
    let host = Host::new();
    host.file("usr/bin/tool", "tool", 0o755)
        .file("usr/lib/library", "library", 0o644)
        .file("usr/local/bin/own", "own", 0o755)
        .file("usr/share/doc/tool/readme", "text", 0o644)
        .file("usr/lib/modules/6/module", "module", 0o644)
        .file("home/somebody/secret", "secret", 0o644)
        .file("opt/suite/program", "program", 0o755)
        .file("root/.ssh/id", "secret", 0o644)
        .file("var/lib/state", "state", 0o644)
        .folder("lib64")
        .file("lib64/loader", "loader", 0o755);
    assert_eq!(host.plan().unwrap().origin(), Origin::Folders);
    let image = host.image();
    assert_eq!(image.content("usr/bin/tool").as_deref(), Some("tool"));
    assert_eq!(image.content("usr/lib/library").as_deref(), Some("library"));
    assert_eq!(image.content("bin").as_deref(), Some("usr/bin"));
    // Where it is no link, it is a folder of the image.
    assert_eq!(image.content("lib64/loader").as_deref(), Some("loader"));
    for absent in [
        "usr/local/bin/own",
        "usr/share/doc",
        "usr/lib/modules",
        "home/somebody",
        "opt/suite",
        "root/.ssh",
        "var/lib/state",
    ] {
        assert!(image.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn the_folders_of_a_root() {
    let image = Host::new().image();
    for (path, mode, owner) in [
        ("tmp", 0o1777, 0),
        ("var/tmp", 0o1777, 0),
        ("root", 0o700, 0),
        ("workspace", 0o777, 0),
        ("home/user", 0o755, 1000),
        ("proc", 0o755, 0),
        ("sys", 0o755, 0),
        ("dev", 0o755, 0),
        ("run", 0o755, 0),
    ] {
        let entry = image.get(path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!((entry.kind, entry.mode, entry.owner), (EntryType::Directory, mode, owner), "{path}");
    }
    let passwd = image.content("etc/passwd").unwrap();
    assert!(passwd.contains("\nuser:*:1000:1000:user:/home/user:/bin/sh\n"), "{passwd}");
    assert!(passwd.starts_with("root:*:0:0:") && passwd.contains("\nnobody:*:65534:"), "{passwd}");
    assert!(image.content("etc/group").unwrap().contains("\nuser:*:1000:\n"));
}

#[test]
fn what_not_everybody_may_read_stays() {
    let host = Host::new();
    host.file("usr/bin/closed", "secret", 0o640)
        .file("usr/lib/private/key", "secret", 0o644)
        .file("usr/bin/program", "program", 0o4755)
        .file("usr/bin/group", "program", 0o2777);
    fs::set_permissions(host.path("usr/lib/private"), fs::Permissions::from_mode(0o750)).unwrap();
    let image = host.image();
    assert!(image.get("usr/bin/closed").is_none());
    assert!(image.paths().all(|path| !path.starts_with("usr/lib/private")));
    assert_eq!(image.get("usr/bin/program").unwrap().mode, 0o755);
    assert_eq!(image.get("usr/bin/group").unwrap().mode, 0o755);
}

#[test]
fn settings_are_chosen_by_name_and_content() {
    let host = Host::new();
    for (path, mode) in [
        ("etc/ssl/certs/ca.pem", 0o644),
        ("etc/ssl/certs/closed.pem", 0o600),
        ("etc/ssl/private/key.pem", 0o644),
        ("etc/python3.99/settings", 0o644),
        ("etc/profile", 0o644),
        ("etc/passwd", 0o644),
        ("etc/shadow", 0o644),
        ("etc/gitconfig", 0o644),
        ("etc/npmrc", 0o644),
        ("etc/machine-id", 0o644),
        ("etc/hostname", 0o644),
        ("etc/ssh/ssh_host_rsa_key", 0o644),
        ("etc/apt/auth.conf", 0o644),
        ("usr/local/share/ca-certificates/own.crt", 0o644),
    ] {
        host.file(path, path, mode);
    }
    let key = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";
    host.file("etc/ssl/certs/both.pem", key, 0o644)
        .file("etc/ssl/certs/ssl-cert-snakeoil.pem", "names the machine", 0o644)
        .file("etc/apt/sources.list", "deb http://mirror.test a main\n", 0o644);
    let image = host.image();
    let etc: Vec<&str> = image.paths().filter(|path| path.starts_with("etc/")).collect();
    assert_eq!(
        etc,
        [
            "etc/apt",
            "etc/apt/sources.list",
            "etc/group",
            "etc/mtab",
            "etc/passwd",
            "etc/profile",
            "etc/python3.99",
            "etc/python3.99/settings",
            "etc/ssl",
            "etc/ssl/certs",
            "etc/ssl/certs/ca.pem",
        ]
    );
    assert_ne!(image.content("etc/passwd").unwrap(), "etc/passwd", "the accounts are not the host's");
    assert!(image.get("usr/local/share/ca-certificates/own.crt").is_some());
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let host = Host::new();
    host.file("usr/bin/perl", "perl", 0o755);
    fs::hard_link(host.path("usr/bin/perl"), host.path("usr/bin/perl5")).unwrap();
    let image = host.image();
    assert_eq!(image.get("usr/bin/perl").unwrap().kind, EntryType::Regular);
    let second = image.get("usr/bin/perl5").unwrap();
    assert_eq!((second.kind, second.content.as_str()), (EntryType::Link, "usr/bin/perl"));
}

#[test]
fn sockets_and_pipes_stay_and_holes_are_filled() {
    let host = Host::new();
    host.folder("usr/lib");
    let _socket = UnixListener::bind(host.path("usr/lib/socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        host.path("usr/lib/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    host.file("usr/lib/sparse", "", 0o644);
    fs::File::options().write(true).open(host.path("usr/lib/sparse")).unwrap().set_len(1 << 20).unwrap();
    let image = host.image();
    assert!(image.get("usr/lib/socket").is_none() && image.get("usr/lib/pipe").is_none());
    let sparse = image.content("usr/lib/sparse").unwrap();
    assert!(sparse.len() == 1 << 20 && sparse.bytes().all(|byte| byte == 0));
}

#[test]
fn long_paths_and_links_survive() {
    let host = Host::new();
    let long = "long-name-".repeat(12);
    let path = format!("usr/lib/{long}/{long}");
    host.file(&path, "deep", 0o644).link("usr/lib/link", &format!("../../{path}"));
    let image = host.image();
    assert_eq!(image.content(&path).as_deref(), Some("deep"));
    assert_eq!(image.content("usr/lib/link"), Some(format!("../../{path}")));
}

#[test]
fn a_host_without_a_shell_makes_no_image() {
    let host = Host::new();
    fs::remove_file(host.path("usr/bin/sh")).unwrap();
    assert!(matches!(host.plan(), Err(MinimalError::NoShell { .. })));
}

#[test]
fn an_image_that_is_too_large_says_why() {
    let host = Host::new();
    host.file("usr/lib/enormous/data/file", vec![1; 3 << 20], 0o644).file(
        "usr/lib/large/file",
        vec![1; 2 << 20],
        0o644,
    );
    let options = Options { max_bytes: 4 << 20, ..host.options() };
    let error = Plan::of_host(&options).err().unwrap().to_string();
    assert!(error.contains("an image of 5 MiB, more than the 4 MiB"), "{error}");
    assert!(error.contains("largest: /usr/lib/enormous (3 MiB), /usr/lib/large (2 MiB)"), "{error}");
    let options = Options { max_entries: 10, ..host.options() };
    assert!(matches!(Plan::of_host(&options), Err(MinimalError::TooMany { allowed: 10 })));
}

#[test]
fn a_file_that_changes_meanwhile_ends_it() {
    let host = Host::new();
    host.file("usr/bin/tool", "before the upgrade", 0o755);
    let plan = host.plan().unwrap();
    host.file("usr/bin/tool", "after", 0o755);
    let mut bytes = Vec::new();
    match plan.write_to(&mut bytes) {
        Err(MinimalError::Changed { path }) => assert_eq!(path, host.path("usr/bin/tool")),
        other => panic!("{other:?}"),
    }
    assert_ne!(bytes[bytes.len() - 1024..], [0; 1024], "no end mark");
    let plan = host.plan().unwrap();
    fs::remove_file(host.path("usr/bin/tool")).unwrap();
    assert!(matches!(plan.write_to(&mut Vec::new()), Err(MinimalError::Host { .. })));
}
