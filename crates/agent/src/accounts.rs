//! Accounts of the sandbox, read by hand: a static glibc cannot load NSS modules, and the
//! files are all a sandbox has.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::CallError;

/// An account and the groups it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The primary group and every group that names the account.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: PathBuf,
}

impl Account {
    /// The account with this name or number.
    pub(crate) fn find(user: &str) -> Result<Self, CallError> {
        Self::find_in(user, &read("/etc/passwd"), &read("/etc/group")).ok_or_else(|| {
            CallError::InvalidField {
                field: "user",
                reason: format!("user {user:?} is not in the sandbox's /etc/passwd"),
                position: None,
            }
        })
    }

    /// The account this process runs as, whether or not a file knows it.
    pub(crate) fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let known = Self::find_in(&uid.to_string(), &read("/etc/passwd"), "");
        known.unwrap_or_else(|| Self {
            name: if uid == 0 { "root".to_owned() } else { uid.to_string() },
            uid,
            gid: rustix::process::getegid().as_raw(),
            groups: Vec::new(),
            home: PathBuf::from(if uid == 0 { "/root" } else { "/" }),
        })
    }

    fn find_in(user: &str, passwd: &str, group: &str) -> Option<Self> {
        // A name wins over a number, as everywhere.
        let entries = || passwd.lines().filter_map(Self::from_passwd_line);
        let mut account = entries().find(|account| account.name == user).or_else(|| {
            let number: u32 = user.parse().ok()?;
            entries().find(|account| account.uid == number)
        })?;
        account.groups = groups_of(&account, group);
        Some(account)
    }

    /// `name:password:uid:gid:comment:home:shell`
    fn from_passwd_line(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).filter(|home| home.starts_with('/')).unwrap_or("/");
        Some(Self { name, uid, gid, groups: Vec::new(), home: PathBuf::from(home) })
    }
}

/// `name:password:gid:member,member`
fn groups_of(account: &Account, group: &str) -> Vec<u32> {
    let mut groups = vec![account.gid];
    for line in group.lines() {
        let mut fields = line.split(':').skip(2);
        let (Some(gid), Some(members)) = (fields.next(), fields.next()) else { continue };
        let Ok(gid) = gid.parse() else { continue };
        if members.split(',').any(|member| member == account.name) && !groups.contains(&gid) {
            groups.push(gid);
        }
    }
    groups
}

/// The sandbox owns these files: anything odd in them reads as "not there".
fn read(path: impl AsRef<Path>) -> String {
    const LIMIT: u64 = 1 << 20;
    // Whatever is there is not waited for.
    let file = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let text = file.and_then(|file| {
        // Else it would be read in steps that begin with 32 bytes.
        let mut bytes = Vec::with_capacity(8 << 10);
        std::io::Read::read_to_end(&mut std::io::Read::take(file, LIMIT), &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    });
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          # a comment\n\
                          broken:x:not-a-number:0::/:\n\
                          user:x:1000:1000:,,,:/home/user:/bin/sh\n\
                          7:x:2000:2000:::\n";
    const GROUP: &str = "root:x:0:\nsudo:x:27:user,other\ndocker:x:999:other\nuser:x:1000:user\n";

    #[test]
    fn found_by_name_and_number() {
        let user = Account {
            name: "user".to_owned(),
            uid: 1000,
            gid: 1000,
            groups: vec![1000, 27],
            home: PathBuf::from("/home/user"),
        };
        let check = |name: &str, expect: Option<&Account>| {
            assert_eq!(Account::find_in(name, PASSWD, GROUP).as_ref(), expect, "{name}");
        };
        check("user", Some(&user));
        check("1000", Some(&user));
        check("nobody", None);
        check("broken", None);
        check("4711", None);
        check("", None);
    }

    #[test]
    fn a_name_wins_over_a_number_and_a_missing_home_is_the_root() {
        let odd = Account::find_in("7", PASSWD, GROUP).expect("named 7");
        assert_eq!((odd.uid, odd.home), (2000, PathBuf::from("/")));
    }
}
