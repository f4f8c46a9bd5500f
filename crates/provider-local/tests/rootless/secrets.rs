//! To the host's kernel the sandbox's root is the server's own account. What that account may
//! read must be out of reach all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{init_pid, run, spec, subject};
use emergent_provider::WorkspaceProvider;

#[tokio::test]
async fn the_servers_own_files_are_out_of_reach() {
    let subject = subject();
    let home = tempfile::Builder::new().prefix("home-of-the-server-").tempdir().unwrap();
    let secrets = [home.path().join("id_ed25519"), subject.data_dir.path().join("admin.token")];
    for secret in &secrets {
        fs::write(secret, "very secret").unwrap();
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let (one, other) = (spec(), spec());
    subject.provider.create(&one).await.unwrap();
    subject.provider.create(&other).await.unwrap();
    run(&subject.provider, other.id, "echo very secret > /workspace/neighbour").await.ok();

    let mut paths: Vec<_> = secrets.iter().map(|path| path.display().to_string()).collect();
    paths.push(subject.data_dir.path().display().to_string());
    paths.push(subject.state_folder(other.id).display().to_string());
    paths.extend(["/etc/shadow", "/home/user/../../../etc/shadow", "/var/lib/dpkg"].map(str::to_owned));
    for path in &paths {
        for way in ["", "/proc/1/root", "/proc/self/root/..", "/proc/1/cwd/../.."] {
            let ran = run(&subject.provider, one.id, &format!("ls -d {way}{path}")).await;
            assert_ne!(ran.status, "exit status: 0", "{way}{path} is there: {}", ran.text);
        }
    }
    let everywhere = "grep -rlsI 'very secret' / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr; \
                      find / -xdev \\( -name agent.sock -o -name sandbox.json -o -name init.json \\) 2>/dev/null; true";
    assert_eq!(run(&subject.provider, one.id, everywhere).await.ok(), "");
    for id in [one.id, other.id] {
        subject.provider.destroy(id).await.unwrap();
    }
    subject.assert_nothing_left();
}

#[tokio::test]
async fn the_first_process_is_as_tame_as_with_root() {
    let subject = subject();
    let spec = spec();
    subject.provider.create(&spec).await.unwrap();
    let fds = format!("/proc/{}/fd", init_pid(&subject, spec.id));
    for entry in fs::read_dir(&fds).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let target = fs::read_link(format!("{fds}/{name}")).unwrap().display().to_string();
        let expected = if matches!(name.as_str(), "0" | "1" | "2") { "/dev/null" } else { "socket:" };
        assert!(target.starts_with(expected), "descriptor {name} is {target}");
    }
    for (script, text) in [
        ("id -u", "0"),
        ("cat /proc/1/comm", "emergent-agent"),
        ("grep NoNewPrivs /proc/1/status | cut -f2", "1"),
        ("grep CapBnd /proc/1/status | cut -f2", "00000000a00415fb"),
        ("grep -E 'Cap(Inh|Amb)' /proc/1/status | cut -f2 | sort -u", "0000000000000000"),
        ("cat /proc/sys/user/max_user_namespaces", "0"),
        ("python3 -c 'import resource as r; print(*r.getrlimit(r.RLIMIT_CORE))'", "1 1"),
        ("ls -A /proc/fs /sys/fs/ext4 /sys/fs/xfs 2>/dev/null | grep -v : | xargs", ""),
        // Before the server, when there is no memory left.
        ("cat /proc/1/oom_score_adj", "250"),
        ("ls /sys/class/net", "lo"),
        ("ls -A /sys/block /sys/dev/block /sys/class/block | grep -v : | xargs", ""),
        ("cut -d: -f1 /etc/passwd | xargs", "root nobody"),
        (
            "ls /dev | grep -v core | xargs",
            "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero",
        ),
        ("python3 -c 'import os; os.openpty(); print(os.path.exists(\"/dev/shm\"))'", "True"),
    ] {
        assert_eq!(run(&subject.provider, spec.id, script).await.ok(), text, "`{script}`");
    }
    for script in [
        "touch /usr/x",
        "echo x > /.emergent/emergent-agent",
        "mv /usr /elsewhere",
        "mv /.emergent /elsewhere",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw,bind /usr",
        "umount /usr",
        "umount -l /proc",
        "umount /proc/kcore",
        "mknod /dev/mem c 1 1",
        "unshare --user true",
        "echo 1 > /proc/sys/kernel/panic",
        "echo 99 > /proc/sys/user/max_user_namespaces",
        "echo b > /proc/sysrq-trigger",
        "hostname other",
        "ip link add dummy0 type dummy",
        "cat /proc/kcore | head -c1 | grep .",
        "cat /proc/keys | grep .",
        "cat /sys/block/*/loop/backing_file",
        "cat /dev/vda",
        "dmesg",
    ] {
        let ran = run(&subject.provider, spec.id, script).await;
        assert_ne!(ran.status, "exit status: 0", "`{script}` worked: {}", ran.text);
    }
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}
