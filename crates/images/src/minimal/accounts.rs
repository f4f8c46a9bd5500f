//! Who is known in the image: the distribution's own accounts where they are written down, never
//! those of the host.

use std::path::Path;

use super::host::Host;

/// What a system has at least.
const PASSWD: &str = "\
root:*:0:0:root:/root:/bin/bash
daemon:*:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";
const GROUP: &str = "\
root:*:0:
daemon:*:1:
tty:*:5:
mail:*:8:
nogroup:*:65534:
";

/// The texts of `/etc/passwd` and `/etc/group`. Nobody has a password.
pub(super) fn of(host: &Host) -> (String, String) {
    let read = |name: &str, otherwise: &str| {
        host.read(&Path::new("usr/share/base-passwd").join(name)).unwrap_or_else(|| otherwise.to_owned())
    };
    let mut passwd = read("passwd.master", PASSWD);
    let mut group = read("group.master", GROUP);
    if host.metadata(Path::new("usr/bin/bash")).or_else(|| host.metadata(Path::new("bin/bash"))).is_none() {
        passwd = passwd.replace("/bin/bash", "/bin/sh");
    }
    let shell = if passwd.contains("/bin/bash") { "/bin/bash" } else { "/bin/sh" };
    // apt fetches as this account.
    if host.metadata(Path::new("usr/bin/apt-get")).is_some() {
        passwd.push_str("_apt:*:42:65534::/nonexistent:/usr/sbin/nologin\n");
    }
    passwd.push_str(&format!("user:*:1000:1000:user:/home/user:{shell}\n"));
    group.push_str("user:*:1000:\n");
    (passwd, group)
}
