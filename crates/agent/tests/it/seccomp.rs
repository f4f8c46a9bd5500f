//! Privileges that are gone, and programs that work all the same.

use crate::support::{Binary, BinaryOptions, text_of};

const FLAGS: &[&str] = &["--loopback", "--drop-capabilities", "--seccomp"];

/// Makes one system call and says how it was answered.
const TRY: &str = r#"
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
number, *arguments = [int(word, 0) for word in sys.argv[1:]]
answer = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
print("ok" if answer >= 0 else errno.errorcode[ctypes.get_errno()])
"#;

fn options() -> BinaryOptions<'static> {
    BinaryOptions { flags: FLAGS, in_namespace: Some(""), ..Default::default() }
}

#[tokio::test]
async fn privileges_are_few_and_inherited() {
    let binary = Binary::start(options()).await;
    let mut client = binary.client().await;
    for process in ["self", "1"] {
        let status = client
            .sh(&format!("grep -E '^(NoNewPrivs|Seccomp|Cap[A-Z]..):' /proc/{process}/status | tr '\\t' ' '"))
            .await;
        // Kept: CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, FSETID 4, KILL 5, SETGID 6, SETUID 7,
        // NET_BIND_SERVICE 10, SYS_CHROOT 18.
        let expected = "CapInh: 0000000000000000\nCapPrm: 00000000000404fb\nCapEff: 00000000000404fb\n\
                        CapBnd: 00000000000404fb\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2";
        assert_eq!(status, expected, "of process {process}");
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn dangerous_calls_are_refused() {
    let binary = Binary::start(options()).await;
    let mut client = binary.client().await;
    client.write("try.py", TRY.as_bytes()).await.expect("writes");
    let user_namespace = libc::CLONE_NEWUSER;
    let cases = [
        ("clone3", libc::SYS_clone3, "0 0", "ENOSYS"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1 0", "ENOSYS"),
        ("a call of the future", 2000, "", "ENOSYS"),
        ("x32 getpid", 0x4000_0000 + libc::SYS_getpid, "", "ENOSYS"),
        ("mount", libc::SYS_mount, "0 0 0 0 0", "EPERM"),
        ("fsopen", libc::SYS_fsopen, "0 0", "EPERM"),
        ("bpf", libc::SYS_bpf, "0 0 0", "EPERM"),
        ("perf_event_open", libc::SYS_perf_event_open, "0 0 0 0 0", "EPERM"),
        ("userfaultfd", libc::SYS_userfaultfd, "1", "EPERM"),
        ("keyctl", libc::SYS_keyctl, "0 0 0 0 0", "EPERM"),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "0 0 0", "EPERM"),
        ("init_module", libc::SYS_init_module, "0 0 0", "EPERM"),
        ("kexec_load", libc::SYS_kexec_load, "0 0 0 0", "EPERM"),
        ("setns", libc::SYS_setns, "0 0", "EPERM"),
        ("iopl", libc::SYS_iopl, "3", "EPERM"),
        ("ioctl TIOCSTI", libc::SYS_ioctl, "0 0x5412 0", "EPERM"),
        // The kernel looks at the lower half of the request only.
        ("ioctl TIOCSTI in disguise", libc::SYS_ioctl, "0 0x7700005412 0", "EPERM"),
        ("ioctl TCGETS on /dev/null", libc::SYS_ioctl, "0 0x5401 0", "ENOTTY"),
        ("personality ADDR_NO_RANDOMIZE", libc::SYS_personality, "0x40000", "EPERM"),
        ("personality, asked", libc::SYS_personality, "0xffffffff", "ok"),
        ("socket AF_UNIX", libc::SYS_socket, "1 1 0", "ok"),
        ("socket AF_INET", libc::SYS_socket, "2 1 0", "ok"),
        ("socket AF_VSOCK", libc::SYS_socket, "40 1 0", "EAFNOSUPPORT"),
        ("socket AF_ALG", libc::SYS_socket, "38 5 0", "EAFNOSUPPORT"),
        ("socket AF_PACKET", libc::SYS_socket, "17 3 0", "EAFNOSUPPORT"),
        ("socket NETLINK_ROUTE", libc::SYS_socket, "16 3 0", "ok"),
        ("socket NETLINK_AUDIT", libc::SYS_socket, "16 3 9", "EAFNOSUPPORT"),
        ("socketpair AF_INET", libc::SYS_socketpair, "2 1 0 0", "EAFNOSUPPORT"),
    ];
    for (name, number, arguments, expect) in cases {
        assert_eq!(client.sh(&format!("python3 try.py {number} {arguments}")).await, expect, "{name}");
    }
    let namespaces = client
        .sh(&format!(
            "python3 try.py {} {}; python3 try.py {} {}",
            libc::SYS_unshare,
            user_namespace,
            libc::SYS_clone,
            user_namespace | libc::SIGCHLD
        ))
        .await;
    assert_eq!(namespaces, "EPERM\nEPERM");
    for command in [
        "mount -t tmpfs none /mnt",
        "unshare -m true",
        "unshare -U true",
        "hostname changed",
        "dmesg",
        "nsenter -t 1 -m true",
        "date -s 2001-01-01",
        "mknod device b 7 0",
    ] {
        assert_ne!(client.run(command).await.exit.expect("an exit").code, 0, "{command:?} works");
    }
}

/// What developers do every day is not touched by the filter.
#[tokio::test]
async fn ordinary_programs_work() {
    let binary = Binary::start(options()).await;
    let mut client = binary.client().await;
    let programs = [
        (
            "bash",
            "set -o pipefail; seq 1000 | sort -R | sort -n | tail -1 | grep -x 1000; exec 3<> <(true); coproc cat; kill %1",
        ),
        (
            "git",
            "git init -q repo && cd repo && git config user.email a@b && git config user.name n && \
             echo x > f && git add f && git commit -qm m && git clone -q . ../clone && git -C ../clone log --oneline",
        ),
        (
            "python",
            "python3 -c 'import subprocess, threading, multiprocessing, socket, sqlite3, asyncio, tempfile, os, signal\n\
             assert subprocess.run([\"echo\", \"x\"], capture_output=True).stdout == b\"x\\n\"\n\
             t = [threading.Thread(target=lambda: None) for _ in range(20)]; [x.start() for x in t]; [x.join() for x in t]\n\
             s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname())\n\
             sqlite3.connect(\"db\").execute(\"create table t (x)\")\n\
             async def f():\n  p = await asyncio.create_subprocess_exec(\"true\"); assert await p.wait() == 0\n\
             asyncio.run(f())\n\
             p = multiprocessing.Process(target=print); p.start(); p.join(); assert p.exitcode == 0'",
        ),
        (
            "node",
            "node -e 'const { Worker } = require(\"worker_threads\"); const fs = require(\"fs\"); const cp = require(\"child_process\"); \
             new Worker(\"1\", { eval: true }).on(\"exit\", () => { fs.watch(\".\").close(); \
             require(\"http\").createServer().listen(0, \"127.0.0.1\", function () { require(\"os\").networkInterfaces(); \
             cp.execFileSync(\"true\"); this.close(); }); })'",
        ),
        (
            "gcc",
            "printf '#include <stdio.h>\\n#include <pthread.h>\\nvoid *f(void *x) { return x; }\\n\
             int main() { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts(\"built\"); }' > a.c && \
             gcc -pthread a.c -o a && ./a",
        ),
        (
            "tar",
            "mkdir t && touch t/x && tar czf t.tgz t && tar xzf t.tgz && find t -newer /etc/passwd | xargs ls -la",
        ),
        (
            "accounts",
            "chown 0:0 a.c && su -s /bin/sh nobody -c 'id -u' 2>/dev/null; setpriv --reuid=65534 --clear-groups true; true",
        ),
        (
            "debugging",
            "timeout 5 sh -c 'sleep 0.1'; nice -n 5 true; flock lock true; mkfifo fifo; stat -f . > /dev/null",
        ),
    ];
    for (name, text) in programs {
        let exited = client.run(text).await;
        let said = format!("{}{}", text_of(exited.stdout.as_ref()), text_of(exited.stderr.as_ref()));
        assert_eq!(exited.exit.expect("an exit").code, 0, "{name}: {said}");
    }
}

/// The limit is what it was, whatever a program does; and a program that lowers it goes on.
#[tokio::test]
async fn the_limit_of_core_dumps_stays() {
    let binary = Binary::start(options()).await;
    let mut client = binary.client().await;
    let script = "python3 -c '
import resource
before = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
assert resource.getrlimit(resource.RLIMIT_CORE) == before != (0, 0), before
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (100, 100)
print(True)'";
    assert_eq!(client.sh(script).await, "True");
}
