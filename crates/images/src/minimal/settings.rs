//! The image's `/etc`, and the folders of a root: made anew, with what this host lets everybody
//! read and nobody keeps secrets in.

use std::path::Path;

use super::accounts;
use super::error::MinimalError;
use super::host::Host;
use super::items::{Content, Item, Items};
use crate::apt_sources;

/// What is taken over from the host's `/etc`, as far as everybody may read it. What customarily
/// holds tokens, addresses or names of people is not here: `gitconfig`, `npmrc`, `pip.conf`,
/// `environment`, `profile.d`, `hosts`, `resolv.conf`, `passwd`, `ssh`, `apt`.
const FROM_ETC: [&str; 40] = [
    "bash.bashrc",
    "bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "ethertypes",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "nanorc",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "vim",
];

/// Language runtimes whose settings carry a version in the name.
const FROM_ETC_BY_PREFIX: [&str; 1] = ["python3"];

/// Names a machine's own certificate, which names the machine.
const MACHINES_OWN: &str = "ssl-cert-snakeoil.pem";

/// Larger files are no settings.
const MAX_FILE: u64 = 4 << 20;

/// How PAM checks accounts, where the host's own way may lead to a directory server.
const PAM: [(&str, &str); 5] = [
    ("common-account", "account required pam_unix.so\n"),
    ("common-auth", "auth required pam_unix.so\n"),
    ("common-password", "password required pam_unix.so\n"),
    ("common-session", "session required pam_unix.so\n"),
    ("common-session-noninteractive", "session required pam_unix.so\n"),
];

/// The folders of a root, and the links that hold the system together.
pub(super) fn root_folders(host: &Host, items: &mut Items) -> Result<(), MinimalError> {
    for (link, target) in host.merged() {
        items.link(link, target)?;
    }
    for folder in [
        "boot",
        "dev",
        "etc",
        "home",
        "media",
        "mnt",
        "opt",
        "proc",
        "run",
        "srv",
        "sys",
        "usr",
        "var",
        "usr/local",
        "usr/local/bin",
        "usr/local/include",
        "usr/local/lib",
        "usr/local/sbin",
        "usr/local/share",
        "var/backups",
        "var/cache",
        "var/lib",
        "var/local",
        "var/log",
        "var/mail",
        "var/opt",
        "var/spool",
    ] {
        items.folder(folder, 0o755)?;
    }
    items.folder("root", 0o700)?;
    items.folder("tmp", 0o1777)?;
    items.folder("var/tmp", 0o1777)?;
    // Whoever works here, works here: the account is chosen per command.
    items.folder("workspace", 0o777)?;
    items.add(Item { path: "home/user".into(), content: Content::Folder, mode: 0o755, owner: 1000 })?;
    items.link("var/run", "/run")?;
    items.link("var/lock", "/run/lock")?;
    items.link("etc/mtab", "/proc/self/mounts")
}

pub(super) fn take(host: &Host, items: &mut Items) -> Result<(), MinimalError> {
    let (passwd, group) = accounts::of(host);
    items.text("etc/passwd", passwd, 0o644)?;
    items.text("etc/group", group, 0o644)?;
    for source in apt_sources::of_host(host.root()) {
        items.text(source.path, source.text, 0o644)?;
    }
    let etc = Path::new("etc");
    for name in FROM_ETC {
        take_over(host, &etc.join(name), items)?;
    }
    for name in host.names(etc)? {
        if FROM_ETC_BY_PREFIX.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            take_over(host, &etc.join(name), items)?;
        }
    }
    // Certificates the host was given, which the lists above speak of.
    take_over(host, Path::new("usr/local/share/ca-certificates"), items)?;
    if items.has(Path::new("etc/pam.d")) {
        for (name, text) in PAM {
            items.text(etc.join("pam.d").join(name), text, 0o644)?;
        }
    }
    Ok(())
}

fn take_over(host: &Host, path: &Path, items: &mut Items) -> Result<(), MinimalError> {
    let Some(found) = host.metadata(path) else { return Ok(()) };
    if found.is_dir() {
        for name in host.names(path)? {
            take_over(host, &path.join(name), items)?;
        }
        return Ok(());
    }
    if found.is_file() {
        let is_setting = found.len() <= MAX_FILE && path.file_name().is_none_or(|name| name != MACHINES_OWN);
        // Some keep a key beside its certificate, in one file.
        if !is_setting || host.read(path).is_none_or(|text| text.contains("PRIVATE KEY")) {
            return Ok(());
        }
    }
    host.take(path, items)
}
