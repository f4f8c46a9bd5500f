//! What a sandbox sees and what it may do: everything here is tried as the sandbox's root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Subject, init_pid, made, run, spec};
use emergent_provider::{SandboxSpec, WorkspaceProvider};
use emergent_types::WorkspaceId;

/// Prints the number of the session keyring: `keyctl(KEYCTL_GET_KEYRING_ID, session, no)`.
const SESSION_KEYRING: &str = "import ctypes; print(ctypes.CDLL(None).syscall(250, 0, -3, 0))";

/// Each script must fail.
async fn check_refused(subject: &Subject, id: WorkspaceId, scripts: &[&str]) {
    for script in scripts {
        let ran = run(&subject.provider, id, script).await;
        assert_ne!(ran.status, "exit status: 0", "`{script}` worked: {}", ran.text);
    }
}

/// Each script must succeed and print this.
async fn check_prints(subject: &Subject, id: WorkspaceId, expected: &[(&str, &str)]) {
    for (script, text) in expected {
        assert_eq!(run(&subject.provider, id, script).await.ok(), *text, "`{script}`");
    }
}

#[tokio::test]
async fn every_namespace_is_its_own() {
    let (subject, SandboxSpec { id, .. }) = made().await;
    for kind in ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"] {
        let host = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        let inside = run(&subject.provider, id, &format!("readlink /proc/self/ns/{kind}")).await.ok();
        assert_ne!(Path::new(&inside), host, "{kind} is the host's");
    }
    let hostname = id.as_uuid().simple().to_string().split_off(20);
    check_prints(
        &subject,
        id,
        &[
            ("cat /proc/1/comm", "emergent-agent"),
            ("hostname", &hostname),
            ("cat /etc/hostname", &hostname),
            ("sed 's/ *//' /proc/1/cgroup | cut -d: -f3 | sort -u", "/"),
            ("ls /sys/class/net", "lo"),
            ("tail -n +2 /proc/net/route | wc -l", "0"),
        ],
    )
    .await;
    subject.remove(id).await;
}

#[tokio::test]
async fn root_is_nobody_on_the_host_and_a_stranger_to_other_sandboxes() {
    let (subject, SandboxSpec { id: one, .. }) = made().await;
    let other = spec();
    subject.provider.create(&other).await.unwrap();
    let mut owners = Vec::new();
    for id in [one, other.id] {
        check_prints(&subject, id, &[("id -u", "0"), ("id -un", "root")]).await;
        let status = fs::read_to_string(format!("/proc/{}/status", init_pid(&subject, id))).unwrap();
        let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap().to_owned();
        let uids: Vec<u32> = line.split_whitespace().skip(1).map(|uid| uid.parse().unwrap()).collect();
        assert!(uids.iter().all(|uid| *uid >= 0x7000_0000), "{line}");
        owners.push(uids[0]);
    }
    assert!(owners[0].abs_diff(owners[1]) >= 65_536, "{owners:?}");
    let machine_ids = [
        run(&subject.provider, one, "cat /etc/machine-id").await.ok(),
        run(&subject.provider, other.id, "cat /etc/machine-id").await.ok(),
    ];
    assert_ne!(machine_ids[0], machine_ids[1]);
    subject.provider.destroy(other.id).await.unwrap();
    subject.remove(one).await;
}

#[tokio::test]
async fn the_hosts_programs_are_there_and_its_files_are_not() {
    let (subject, SandboxSpec { id, .. }) = made().await;
    check_prints(
        &subject,
        id,
        &[
            ("bash -c 'echo ${BASH_VERSION:+bash}'", "bash"),
            ("git --version | cut -d' ' -f1", "git"),
            ("python3 -c 'print(6 * 7)'", "42"),
            ("ls /home", "user"),
            ("ls -A /root /srv /mnt /media /boot /workspace | grep -v : | xargs", ""),
            ("stat -c '%U %a' /workspace /home/user /root", "root 777\nuser 755\nroot 700"),
            ("cut -d: -f1 /etc/passwd | xargs", "root daemon user nobody"),
            ("cd /etc; ls -d gitconfig npmrc pip.conf apt ssh shadow environment 2>/dev/null; true", ""),
            ("cat /etc/resolv.conf", "nameserver 127.0.0.53"),
            ("find / -xdev -name '*.sock' 2>/dev/null; find /run /var/run/ -type s", ""),
        ],
    )
    .await;
    let environment =
        run(&subject.provider, id, "tr '\\0' '\\n' < /proc/1/environ | cut -d= -f1 | sort | xargs")
            .await
            .ok();
    assert_eq!(environment, "EMERGENT_AGENT_KEY HOME LANG PATH");
    // Its own root, not one above: nothing of the helper's or the host's is mounted.
    let mounts = run(&subject.provider, id, "cut -d' ' -f5 /proc/self/mountinfo | sort | xargs").await.ok();
    let own = "/ /.emergent /dev /proc /run /sys /tmp /usr /bin /sbin /lib /lib32 /lib64 /libx32";
    for point in mounts.split(' ') {
        let below = ["/dev/", "/proc/", "/sys/"].iter().any(|above| point.starts_with(above));
        assert!(below || own.split(' ').any(|known| known == point), "{point} in {mounts}");
    }
    subject.remove(id).await;
}

/// A file on the host that is removed again.
struct HostFile(PathBuf);

impl Drop for HostFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn what_only_the_hosts_root_may_read_stays_unread() {
    let secret = HostFile(format!("/usr/local/share/.emergent-test-{}", std::process::id()).into());
    fs::write(&secret.0, "secret").unwrap();
    fs::set_permissions(&secret.0, fs::Permissions::from_mode(0o600)).unwrap();
    let (subject, SandboxSpec { id, .. }) = made().await;
    let name = secret.0.display().to_string();
    check_prints(&subject, id, &[(&format!("stat -c '%u %a' {name}"), "65534 600")]).await;
    check_refused(
        &subject,
        id,
        &[&format!("cat {name}"), &format!("chmod 644 {name}"), &format!("chown root {name}")],
    )
    .await;
    subject.remove(id).await;
}

#[tokio::test]
async fn nothing_of_the_hosts_can_be_changed() {
    let (subject, SandboxSpec { id, .. }) = made().await;
    check_refused(
        &subject,
        id,
        &[
            "touch /usr/x",
            "touch /usr/bin/x",
            "rm -f /usr/bin/env",
            "touch /.emergent/x",
            "echo x > /.emergent/emergent-agent",
            "mv /usr /elsewhere",
            "mv /.emergent /elsewhere",
            "rmdir /proc",
            "mount -t tmpfs none /mnt",
            "mount --bind /tmp /mnt",
            "mount -o remount,rw,bind /usr",
            "umount /usr",
            "umount -l /proc",
            "mknod /tmp/disk b 7 0",
            "mknod /dev/mem c 1 1",
            "unshare --user true",
            "unshare --mount true",
            "echo 1 > /proc/sys/kernel/panic",
            "echo 99 > /proc/sys/user/max_user_namespaces",
            "echo b > /proc/sysrq-trigger",
            "echo -1000 > /proc/self/oom_score_adj",
            "hostname other",
            "ip link add dummy0 type dummy",
            "echo 0 > /sys/fs/cgroup/memory/memory.limit_in_bytes",
            "echo max > /sys/fs/cgroup/memory.max",
            "mkdir /sys/fs/cgroup/memory/x",
            "mkdir /sys/fs/cgroup/x",
            "cat /proc/kcore | head -c1 | grep .",
            "cat /sys/devices/virtual/block/*/loop/backing_file",
            "cat /sys/block/*/loop/backing_file",
            "cat /dev/loop0",
            "cat /dev/vda",
            "dmesg",
        ],
    )
    .await;
    subject.remove(id).await;
}

#[tokio::test]
async fn the_first_process_has_little_and_holds_nothing_of_the_hosts() {
    let (subject, SandboxSpec { id, .. }) = made().await;
    // Looked at from outside before the first connection: nothing but /dev/null and the
    // listening socket.
    let fds = format!("/proc/{}/fd", init_pid(&subject, id));
    let target = |name: &str| fs::read_link(format!("{fds}/{name}")).unwrap().display().to_string();
    for entry in fs::read_dir(&fds).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let expected =
            if matches!(name.as_str(), "0" | "1" | "2") { "/dev/null".to_owned() } else { target("3") };
        assert_eq!(target(&name), expected, "descriptor {name}");
    }
    assert!(target("3").starts_with("socket:"), "{}", target("3"));
    let own_keyring = Command::new("/usr/bin/python3").args(["-c", SESSION_KEYRING]).output().unwrap();
    let own_keyring = String::from_utf8(own_keyring.stdout).unwrap();
    let keyring =
        format!("test \"$(/usr/bin/python3 -c '{SESSION_KEYRING}')\" != {} && echo True", own_keyring.trim());
    check_prints(
        &subject,
        id,
        &[
            ("grep NoNewPrivs /proc/1/status | cut -f2", "1"),
            // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
            // NET_BIND_SERVICE, NET_ADMIN, SYS_CHROOT, AUDIT_WRITE, SETFCAP.
            ("grep CapBnd /proc/1/status | cut -f2", "00000000a00415fb"),
            ("grep -E 'Cap(Inh|Amb)' /proc/1/status | cut -f2 | sort -u", "0000000000000000"),
            ("cat /proc/1/oom_score_adj", "0"),
            ("python3 -c 'import resource as r; print(*r.getrlimit(r.RLIMIT_CORE))'", "1 1"),
            ("ls -A /proc/fs /sys/fs/ext4 /sys/fs/xfs 2>/dev/null | grep -v : | xargs", ""),
            // The session keyring is not the test's own.
            (&keyring, "True"),
            (
                "ls /dev | grep -v core | xargs",
                "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero",
            ),
        ],
    )
    .await;
    subject.remove(id).await;
}
