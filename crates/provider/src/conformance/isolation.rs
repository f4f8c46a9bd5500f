//! What a sandbox can see and do beyond itself: nothing.

use super::{Subject, TestSandbox};

/// Proves: LIFE-01
pub async fn the_host_is_not_visible(subject: &Subject) {
    // A file of the host's that every account there may read, and one in a home folder.
    let secret = tempfile::Builder::new().prefix("host-secret").tempfile_in("/tmp").expect("writes");
    std::fs::write(secret.path(), "host secret").expect("writes");
    let sandbox = subject.sandbox().await;
    let path = secret.path().display();
    assert_ne!(sandbox.run(&format!("cat {path}")).await.exit.code, 0, "the host's /tmp is visible");
    for hidden in
        ["/var/run/docker.sock", "/run/docker.sock", "/run/dbus", "/root/.ssh", "/root/.cargo", "/boot/grub"]
    {
        assert_ne!(sandbox.run(&format!("ls -d {hidden}")).await.exit.code, 0, "{hidden} is visible");
    }
    if subject.has_own_root().await {
        // There is one, and it is another.
        let own = std::fs::read_to_string("/etc/shadow").expect("as root");
        assert_ne!(sandbox.sh("cat /etc/shadow").await, own.trim_end(), "the host's /etc/shadow is visible");
    } else {
        for hidden in ["/etc/shadow", "/etc/ssl/private"] {
            assert_ne!(sandbox.run(&format!("ls -d {hidden}")).await.exit.code, 0, "{hidden} is visible");
        }
    }
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert_ne!(sandbox.sh("cat /proc/sys/kernel/hostname").await, hostname.trim());
    // Its own processes only, and the first of them is ours.
    let pids: usize = sandbox.sh("ls -d /proc/[0-9]* | wc -l").await.parse().expect("a number");
    assert!(pids < 16, "{pids} processes are visible");
    let environment = sandbox.sh("env").await;
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO") || name.starts_with("NEXTEST"))
    {
        assert!(!environment.contains(&format!("{name}=")), "{name} leaked in");
    }
}

/// Every namespace differs from the host's.
pub async fn namespaces_are_its_own(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let own_kernel = subject.has_own_kernel().await;
    for namespace in ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"] {
        // Not every kernel has every kind.
        if own_kernel && sandbox.run(&format!("readlink /proc/self/ns/{namespace}")).await.exit.code != 0 {
            continue;
        }
        let inside = sandbox.sh(&format!("readlink /proc/self/ns/{namespace}")).await;
        let outside = std::fs::read_link(format!("/proc/self/ns/{namespace}")).expect("readable");
        assert_ne!(inside, outside.display().to_string(), "the {namespace} namespace is the host's");
    }
}

/// Few capabilities, no new privileges, a system call filter, and the calls that need more fail.
pub async fn privileges_are_few(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let status = sandbox.sh("cat /proc/self/status").await;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned()).unwrap_or_else(|| panic!("no {name} in {status}"))
    };
    let own_kernel = subject.has_own_kernel().await;
    if !own_kernel {
        // What guards the host's kernel. Another one is its own guard.
        assert_eq!(field("NoNewPrivs:"), "1");
        assert_eq!(field("Seccomp:"), "2");
    }
    let bounding = u64::from_str_radix(&field("CapBnd:"), 16).expect("hexadecimal");
    for (bit, name) in [
        (12, "NET_ADMIN"),
        (16, "SYS_MODULE"),
        (19, "SYS_PTRACE"),
        (21, "SYS_ADMIN"),
        (22, "SYS_BOOT"),
        (25, "SYS_TIME"),
        (27, "MKNOD"),
    ] {
        assert_eq!(bounding & (1 << bit), 0, "CAP_{name} is in the bounding set");
    }
    for command in [
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /usr",
        "umount /usr",
        "unshare -m true",
        // A kernel of its own may let it be made, for nothing.
        "mknod /tmp/disk b 7 0 && head -c 1 /tmp/disk",
        "hostname changed",
        "ip link add dummy0 type dummy",
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "chroot / mount -t proc proc /mnt",
        "date -s 2001-01-01",
        "swapon /dev/loop0",
        "nsenter -t 1 -m true",
    ] {
        assert_ne!(sandbox.run(command).await.exit.code, 0, "{command:?} works");
    }
    // Of one's own kernel they are harmless.
    for command in ["unshare -U true", "dmesg"] {
        assert!(own_kernel || sandbox.run(command).await.exit.code != 0, "{command:?} works");
    }
}

/// Isolated means no route and no name; loopback inside works.
pub async fn nothing_is_reachable_when_isolated(subject: &Subject) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let sandbox = subject.sandbox().await;
    let connect =
        |address: &str, port: u16| format!("timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port}' 2>&1");
    assert_ne!(
        sandbox.run(&connect("127.0.0.1", port)).await.exit.code,
        0,
        "the host's loopback is reachable"
    );
    // Link-local metadata has no route at all, so nothing leaves the sandbox by trying.
    let outcome = sandbox.run(&connect("169.254.169.254", 80)).await;
    let said = outcome.stdout.to_text();
    // Linux and gVisor's own stack have different words for it.
    assert!(said.contains("unreachable") || said.contains("No route to host"), "{said}");
    assert_eq!(sandbox.sh("cat /proc/net/route | wc -l").await, "1", "there is a route");
    sandbox
        .sh("python3 -c 'import socket\ns=socket.create_server((\"127.0.0.1\",0))\nsocket.create_connection(s.getsockname())\nprint(1)'")
        .await;
}

/// Two sandboxes share nothing.
pub async fn sandboxes_do_not_see_each_other(subject: &Subject) {
    let (one, two) = tokio::join!(subject.sandbox(), subject.sandbox());
    one.sh("echo mine > /tmp/mark; echo mine > mark; echo mine > /dev/shm/mark; echo mine > /etc/mark").await;
    two.sh("! ls /tmp/mark mark /dev/shm/mark /etc/mark 2>/dev/null | grep .").await;
    one.client
        .start_process(&emergent_agent_client::CommandSpec::shell("exec -a unique-name sleep 600"))
        .await
        .expect("starts");
    two.sh("! grep -l [u]nique-name /proc/[0-9]*/cmdline 2>/dev/null | grep -v /self/ | grep .").await;
    // Kernels of their own count from the same number.
    let kinds: &[&str] = match subject.has_own_kernel().await {
        true => &[],
        false => &["user", "mnt", "pid", "ipc", "uts", "net"],
    };
    for namespace in kinds {
        let inside = |sandbox: &TestSandbox| {
            let command = format!("readlink /proc/self/ns/{namespace}");
            let client = sandbox.client.clone();
            async move {
                let spec = emergent_agent_client::CommandSpec::shell(command);
                client.exec(&spec, Default::default()).await.expect("runs").stdout.to_text()
            }
        };
        assert_ne!(inside(&one).await, inside(&two).await, "shared {namespace} namespace");
    }
}

/// What is the host's stays as it is. Tried on a file that is there to be lost: a check that
/// fails must not cost the host its programs.
pub async fn system_folders_cannot_be_changed(subject: &Subject) {
    let victim =
        tempfile::Builder::new().prefix("emergent-victim-").tempfile_in("/usr/local").expect("as root");
    std::fs::write(victim.path(), "the host's").expect("writes");
    std::fs::set_permissions(victim.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("chmod");
    let sandbox = subject.sandbox().await;
    let own_root = subject.has_own_root().await;
    let path = victim.path().display();
    for command in [
        format!("echo x > {path}"),
        format!("echo x >> {path}"),
        format!("truncate -s 0 {path}"),
        format!("python3 -c 'import os; os.open(\"{path}\", os.O_RDONLY | os.O_TRUNC)'"),
        format!("rm -f {path}"),
        format!("chmod 700 {path}"),
        format!("ln {path} /workspace/link && echo x > /workspace/link"),
        "touch /usr/local/emergent-new".to_owned(),
    ] {
        // In a root of its own there may be files of these names.
        let outcome = sandbox.run(&command).await;
        assert!(own_root || outcome.exit.code != 0, "{command:?} works");
        let content = std::fs::read_to_string(victim.path()).expect("is still there");
        assert_eq!(content, "the host's", "changed by {command:?}");
    }
    assert!(!std::path::Path::new("/usr/local/emergent-new").exists());
    assert_ne!(
        sandbox.run("echo x >> $(readlink /proc/1/exe)").await.exit.code,
        0,
        "the agent can be changed"
    );
    // The agent itself is there to be attacked, and what a developer needs is there to be used.
    sandbox.sh("test -r $(readlink /proc/1/exe)").await;
    sandbox.sh("bash --version >/dev/null && python3 --version >/dev/null && git --version >/dev/null").await;
}
