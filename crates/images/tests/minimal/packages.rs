//! Hosts with a database of packages.

use emergent_images::minimal::Origin;

use crate::hosts::Host;

const STATUS: &str = "\
Package: dash
Essential: yes
Status: install ok installed
Architecture: amd64
Depends: libc6

Package: dpkg
Essential: yes
Status: install ok installed
Architecture: amd64

Package: git
Status: install ok installed
Architecture: amd64
Depends: libc6, awk
Conffiles:
 /etc/git/untouched 847676261680bff61c72961c8198abc0
 /etc/git/changed 847676261680bff61c72961c8198abc0

Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same

Package: mawk
Status: install ok installed
Architecture: amd64
Provides: awk

Package: enormous
Status: install ok installed
Architecture: amd64
";

fn debian() -> Host {
    let host = Host::new();
    host.link("lib", "usr/lib").file("var/lib/dpkg/status", STATUS, 0o644);
    for (package, files) in [
        ("dash", "/.\n/bin\n/bin/sh\n/usr/share/doc/dash\n"),
        ("dpkg", "/usr/bin/dpkg\n/var/lib/dpkg/updates\n"),
        (
            "git",
            "/usr/bin/git\n/usr/share/doc/git/readme\n/var/lib/git\n/etc/git\n/etc/git/changed\n/etc/git.d\n",
        ),
        ("libc6:amd64", "/lib/x86_64/libc.so\n/../outside\n"),
        ("mawk", "/usr/bin/mawk\n"),
        ("enormous", "/usr/lib/enormous\n/usr/lib/enormous/data\n"),
    ] {
        host.file(&format!("var/lib/dpkg/info/{package}.list"), files, 0o644);
        host.file(&format!("var/lib/dpkg/info/{package}.postinst"), "script", 0o755);
    }
    for path in [
        "usr/bin/dpkg",
        "usr/bin/git",
        "usr/bin/mawk",
        "usr/bin/put-there-by-hand",
        "usr/lib/x86_64/libc.so",
        "usr/lib/enormous/data",
        "usr/share/doc/git/readme",
        "var/lib/git/state",
    ] {
        host.file(path, path, 0o755);
    }
    host.folder("var/lib/dpkg/updates").folder("etc/git.d");
    // "same" and its sum.
    host.file("etc/git/untouched", "same\n", 0o644).file("etc/git/changed", "with a token", 0o644);
    host.file("var/lib/dpkg/alternatives/awk", "auto\n/usr/bin/awk\n\n/usr/bin/mawk\n5\n", 0o644)
        .link("etc/alternatives/awk", "/usr/bin/mawk")
        .link("usr/bin/awk", "/etc/alternatives/awk")
        .file("var/lib/dpkg/alternatives/java", "auto\n/usr/bin/java\n\n/usr/lib/enormous/data\n5\n", 0o644)
        .link("etc/alternatives/java", "/usr/lib/enormous/data")
        .link("usr/bin/java", "/etc/alternatives/java")
        .file("var/lib/dpkg/triggers/File", "/usr/share/a git\n/usr/share/b enormous\n", 0o644);
    host
}

#[test]
fn packages_that_are_needed_come_along_whole() {
    let host = debian();
    assert_eq!(host.plan().unwrap().origin(), Origin::Packages(5));
    let image = host.image();
    for path in ["usr/bin/sh", "usr/bin/git", "usr/bin/mawk", "usr/lib/x86_64/libc.so"] {
        assert!(image.get(path).is_some(), "{path}");
    }
    for path in
        ["usr/bin/put-there-by-hand", "usr/lib/enormous", "usr/share/doc", "var/lib/git/state", "outside"]
    {
        assert!(image.get(path).is_none(), "{path}");
    }
    assert!(image.get("var/lib/git").is_some() && image.get("etc/git.d").is_some());
}

#[test]
fn settings_come_along_as_their_package_brought_them() {
    let image = debian().image();
    assert_eq!(image.content("etc/git/untouched").as_deref(), Some("same\n"));
    assert!(image.get("etc/git/changed").is_none());
}

#[test]
fn choices_come_along_with_what_they_chose() {
    let image = debian().image();
    assert_eq!(image.content("usr/bin/awk").as_deref(), Some("/etc/alternatives/awk"));
    assert_eq!(image.content("etc/alternatives/awk").as_deref(), Some("/usr/bin/mawk"));
    assert!(image.get("usr/bin/java").is_none() && image.get("etc/alternatives/java").is_none());
}

#[test]
fn the_database_says_what_is_there() {
    let image = debian().image();
    let status = image.content("var/lib/dpkg/status").unwrap();
    let packages: Vec<&str> = status.lines().filter_map(|line| line.strip_prefix("Package: ")).collect();
    assert_eq!(packages, ["dash", "dpkg", "git", "libc6", "mawk"]);
    assert!(status.contains("\n\nPackage: git\n"), "{status}");
    assert!(image.get("var/lib/dpkg/info/libc6:amd64.list").is_some());
    assert!(image.get("var/lib/dpkg/info/git.postinst").is_some());
    assert!(image.get("var/lib/dpkg/info/enormous.list").is_none());
    assert_eq!(image.content("var/lib/dpkg/triggers/File").as_deref(), Some("/usr/share/a git\n"));
}

#[test]
fn a_module_that_replaced_itself_comes_along_as_it_is() {
    let host = debian();
    let list = "/usr/bin/git\n/usr/lib/node_modules/npm\n/usr/lib/node_modules/npm/old\n";
    host.file("var/lib/dpkg/info/git.list", list, 0o644)
        .file("usr/lib/node_modules/npm/new", "new", 0o644)
        .file("usr/lib/node_modules/of-somebody/file", "x", 0o644);
    let image = host.image();
    assert!(image.get("usr/lib/node_modules/npm/new").is_some());
    assert!(image.get("usr/lib/node_modules/npm/old").is_none());
    assert!(image.get("usr/lib/node_modules/of-somebody").is_none());
}
