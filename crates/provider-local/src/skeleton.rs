//! What a new disk holds: the folders of a Linux root, and an `/etc` made of what this host
//! lets everybody read and nobody keeps secrets in.
//!
//! The system itself is not on the disk: the host's `/usr` (and `/bin`, `/lib` and so on
//! where they are folders of their own) is mounted over it, read-only. So bash, git and
//! python are there, as the host has them.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use emergent_host_disk::TemplateContent;
use sha2::{Digest, Sha256};

use crate::means::Accounts;

/// Folders at the root that hold the system; on most hosts all but `usr` are links into it.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What is taken over from the host's `/etc`, as far as everybody may read it. What
/// customarily holds tokens, addresses or names of people is not here: `gitconfig`, `npmrc`,
/// `pip.conf`, `apt`, `environment`, `profile.d`, `hosts`, `resolv.conf`, `passwd`, `ssh`.
const FROM_ETC: [&str; 44] = [
    "X11/fonts",
    "alternatives",
    "bash.bashrc",
    "bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "ethertypes",
    "fonts",
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
    "manpath.config",
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
const FROM_ETC_BY_PREFIX: [&str; 2] = ["python3", "java"];

/// Folders and files larger than this in all are not settings any more.
const MAX_FILE: u64 = 4 << 20;

/// Everything on a new disk, in an order in which it can be written.
#[derive(Debug, Clone)]
pub(crate) struct Skeleton {
    entries: Vec<Entry>,
    fingerprint: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// From the disk's root.
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Folder {
        mode: u32,
    },
    /// A file of the sandbox's own.
    File {
        text: String,
        mode: u32,
    },
    /// A file of the host's: kept as a name, since together they are large.
    HostFile {
        source: PathBuf,
        sha256: Vec<u8>,
        mode: u32,
    },
    Link {
        target: PathBuf,
    },
}

impl Skeleton {
    /// Looks at the host's root.
    pub(crate) fn of_host(root: &Path, accounts: Accounts) -> io::Result<Self> {
        let mut entries = root_folders();
        for name in SYSTEM {
            match fs::symlink_metadata(root.join(name)) {
                Ok(found) if found.is_symlink() => {
                    entries.push(Entry::link(name, fs::read_link(root.join(name))?));
                }
                Ok(found) if found.is_dir() => entries.push(Entry::folder(name, 0o755)),
                _ => {}
            }
        }
        entries.extend(own_settings(root, accounts));
        let mut taken = Vec::new();
        for name in FROM_ETC {
            take_over(root, &Path::new("etc").join(name), &mut taken)?;
        }
        for entry in fs::read_dir(root.join("etc"))?.filter_map(Result::ok) {
            let name = entry.file_name();
            if FROM_ETC_BY_PREFIX.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                take_over(root, &Path::new("etc").join(name), &mut taken)?;
            }
        }
        taken.sort_by(|a, b| a.path.cmp(&b.path));
        taken.dedup_by(|a, b| a.path == b.path);
        entries.extend(taken);
        let fingerprint = fingerprint(&entries);
        Ok(Self { entries, fingerprint })
    }
}

impl TemplateContent for Skeleton {
    /// Differs where the content differs.
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Writes everything below a folder, which is made anew.
    fn write_to(&self, folder: &Path) -> io::Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        for entry in &self.entries {
            let path = folder.join(&entry.path);
            match &entry.content {
                Content::Folder { mode } => {
                    fs::create_dir_all(&path)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
                }
                Content::File { text, mode } => {
                    fs::write(&path, text)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
                }
                Content::HostFile { source, mode, .. } => {
                    fs::copy(source, &path)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
                }
                Content::Link { target } => symlink(target, &path)?,
            }
        }
        Ok(())
    }
}

/// The folders at the host's root that hold its system and are mounted into every sandbox.
/// Links are not among them: they are on the disk.
pub(crate) fn system_folders() -> Vec<String> {
    SYSTEM
        .into_iter()
        .filter(|name| fs::symlink_metadata(Path::new("/").join(name)).is_ok_and(|found| found.is_dir()))
        .map(str::to_owned)
        .collect()
}

impl Entry {
    fn folder(path: impl Into<PathBuf>, mode: u32) -> Self {
        Self { path: path.into(), content: Content::Folder { mode } }
    }

    fn link(path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), content: Content::Link { target: target.into() } }
    }

    fn file(path: &str, text: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), content: Content::File { text: text.into(), mode } }
    }
}

fn root_folders() -> Vec<Entry> {
    let mut entries: Vec<Entry> = [
        // Mount points. At the root, where a running sandbox can neither rename nor replace
        // them: they are found as they were when it is started again.
        ".emergent",
        "dev",
        "proc",
        "run",
        "sys",
        "boot",
        "etc",
        "home",
        "media",
        "mnt",
        "opt",
        "srv",
        "etc/pki",
        "etc/pki/tls",
        "etc/ssl",
        "etc/X11",
        "etc/profile.d",
        "etc/opt",
        "var",
        "var/backups",
        "var/cache",
        "var/lib",
        "var/local",
        "var/log",
        "var/mail",
        "var/opt",
        "var/spool",
    ]
    .into_iter()
    .map(|path| Entry::folder(path, 0o755))
    .collect();
    entries.extend([
        Entry::folder("root", 0o700),
        Entry::folder("tmp", 0o1777),
        Entry::folder("var/tmp", 0o1777),
        // Whoever works here, works here: the account is chosen per command.
        Entry::folder("workspace", 0o777),
        // Given to its owner when the disk is first mounted.
        Entry::folder("home/user", 0o755),
        Entry::link("var/run", "/run"),
        Entry::link("var/lock", "/run/lock"),
        Entry::link("etc/mtab", "/proc/self/mounts"),
    ]);
    entries
}

/// Settings that are the sandbox's own and not the host's.
fn own_settings(root: &Path, accounts: Accounts) -> Vec<Entry> {
    let shell = if root.join("usr/bin/bash").exists() || root.join("bin/bash").exists() {
        "/bin/bash"
    } else {
        "/bin/sh"
    };
    let others = match accounts {
        Accounts::Many => format!(
            "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
             user:x:1000:1000:user:/home/user:{shell}\n"
        ),
        Accounts::RootAlone => String::new(),
    };
    // Whom the host's files belong to, as seen from inside.
    let nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin";
    let passwd = format!("root:x:0:0:root:/root:{shell}\n{others}{nobody}\n");
    let group = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nmail:x:8:\nuser:x:1000:\nnogroup:x:65534:\n";
    vec![
        Entry::file("etc/passwd", passwd, 0o644),
        Entry::file("etc/group", group, 0o644),
        // The server's forwarder, which is there where there is a network.
        Entry::file("etc/resolv.conf", "nameserver 127.0.0.53\n", 0o644),
    ]
}

/// Takes over one file, link or folder of the host's, as far as everybody may read it.
fn take_over(root: &Path, path: &Path, into: &mut Vec<Entry>) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(root.join(path)) else { return Ok(()) };
    let for_all = found.mode() & 0o7;
    if found.is_symlink() {
        into.push(Entry::link(path, fs::read_link(root.join(path))?));
    } else if found.is_dir() && for_all & 0o5 == 0o5 {
        into.push(Entry::folder(path, 0o755));
        let mut names: Vec<_> =
            fs::read_dir(root.join(path))?.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            take_over(root, &path.join(name), into)?;
        }
    } else if found.is_file() && for_all & 0o4 == 0o4 && found.len() <= MAX_FILE {
        let source = root.join(path);
        let sha256 = Sha256::digest(fs::read(&source)?).to_vec();
        let mode = 0o644 | (found.mode() & 0o111);
        into.push(Entry { path: path.into(), content: Content::HostFile { source, sha256, mode } });
    }
    Ok(())
}

fn fingerprint(entries: &[Entry]) -> String {
    let mut hash = Sha256::new();
    for entry in entries {
        // `Debug` of paths and byte strings is unambiguous.
        hash.update(format!("{entry:?}\n"));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["usr/bin", "etc/ssl/certs", "etc/ssl/private", "etc/python3.99", "lib64"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        symlink("usr/bin", root.path().join("bin")).unwrap();
        let file = |path: &str, mode: u32| {
            fs::write(root.path().join(path), path).unwrap();
            fs::set_permissions(root.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        file("etc/ssl/certs/ca.pem", 0o644);
        file("etc/ssl/certs/hidden.pem", 0o640);
        file("etc/ssl/private/key.pem", 0o644);
        file("etc/python3.99/settings", 0o644);
        file("etc/gitconfig", 0o644);
        file("etc/passwd", 0o644);
        file("etc/profile", 0o755);
        root
    }

    #[test]
    fn only_what_all_may_read_and_nobody_hides_in() {
        let host = host();
        let target = tempfile::tempdir().unwrap();
        let out = target.path().join("out");
        Skeleton::of_host(host.path(), Accounts::Many).unwrap().write_to(&out).unwrap();
        let read = |path: &str| fs::read_to_string(out.join(path)).ok();

        assert_eq!(read("etc/ssl/certs/ca.pem").as_deref(), Some("etc/ssl/certs/ca.pem"));
        assert_eq!(read("etc/python3.99/settings").as_deref(), Some("etc/python3.99/settings"));
        assert_eq!(read("etc/ssl/certs/hidden.pem"), None);
        assert_eq!(read("etc/ssl/private/key.pem"), None);
        assert_eq!(read("etc/gitconfig"), None);
        assert!(read("etc/passwd").unwrap().contains("user:x:1000:"));
        assert_eq!(fs::read_link(out.join("bin")).unwrap(), Path::new("usr/bin"));
        assert!(out.join("lib64").is_dir() && fs::read_dir(out.join("lib64")).unwrap().next().is_none());
        assert_eq!(fs::metadata(out.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
        assert_eq!(fs::metadata(out.join("root")).unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn another_content_has_another_fingerprint() {
        let host = host();
        let before = Skeleton::of_host(host.path(), Accounts::Many).unwrap();
        assert_eq!(
            before.fingerprint(),
            Skeleton::of_host(host.path(), Accounts::Many).unwrap().fingerprint()
        );
        fs::write(host.path().join("etc/profile"), "changed").unwrap();
        assert_ne!(
            before.fingerprint(),
            Skeleton::of_host(host.path(), Accounts::Many).unwrap().fingerprint()
        );
    }
}
