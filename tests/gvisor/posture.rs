//! What a sandbox under gVisor is, seen from inside.

use std::net::TcpListener;
use std::time::Duration;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::conformance::{Subject, TestSandbox};
use emergent_types::IsolationLevel;

use crate::{subject, subject_that_switches_accounts};

/// A line of `/proc/self/status` of a command, without its name.
async fn status(sandbox: &TestSandbox, name: &str) -> String {
    sandbox.sh(&format!("sed -n 's/^{name}:[[:space:]]*//p' /proc/self/status")).await
}

/// The kernel is gVisor's, and the provider says so.
///
/// Proves: MIGR-1.6
#[test]
fn the_kernel_is_gvisors() {
    Subject::run(subject, |subject| {
        Box::pin(async move {
            let sandbox = subject.sandbox().await;
            let first_lines = sandbox.sh("dmesg | head -n 3").await;
            assert!(first_lines.contains("Starting gVisor"), "{first_lines}");
            assert_eq!(sandbox.sandbox.isolation, IsolationLevel::Gvisor);
            assert!(subject.provider.health().await.is_healthy());
        })
    });
}

/// Root inside has no capability, and no program can give it one.
#[test]
fn there_is_no_privilege() {
    Subject::run(subject, |subject| {
        Box::pin(async move {
            let sandbox = subject.sandbox().await;
            assert_eq!(sandbox.sh("id -u").await, "0");
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd"] {
                assert_eq!(status(&sandbox, set).await, "0".repeat(16), "{set}");
            }
            assert_eq!(no_new_privileges(&sandbox).await, "1");
            for command in ["mount -t tmpfs none /tmp", "chroot / true", "chown 1 .", "mknod disk b 7 0"] {
                assert_ne!(sandbox.run(command).await.exit.code, 0, "{command:?} works");
            }
        })
    });
}

/// What switching accounts costs: three capabilities and no fourth. With them a command of
/// another account also ends when its time is over.
#[test]
fn switching_accounts_takes_three_capabilities() {
    const KILL_SETGID_SETUID: &str = "00000000000000e0";

    Subject::run(subject_that_switches_accounts, |subject| {
        Box::pin(async move {
            let sandbox = subject.sandbox().await;
            for set in ["CapEff", "CapBnd"] {
                assert_eq!(status(&sandbox, set).await, KILL_SETGID_SETUID, "{set}");
            }
            assert_eq!(no_new_privileges(&sandbox).await, "1");
            let command = CommandSpec {
                user: Some("nobody".to_owned()),
                workdir: Some("/".to_owned()),
                ..CommandSpec::shell("setsid sleep 600 & sleep 600")
            };
            let options = ExecOptions { timeout: Duration::from_millis(500), ..ExecOptions::default() };
            let outcome = sandbox.client.exec(&command, options).await.expect("runs");
            assert!(outcome.timed_out, "{outcome:?}");
            let left = sandbox.sh("cat /proc/[0-9]*/comm").await;
            assert!(!left.lines().any(|name| name == "sleep"), "{left}");
        })
    });
}

/// gVisor's `/proc/self/status` has no line for it, so the kernel is asked.
async fn no_new_privileges(sandbox: &TestSandbox) -> String {
    const PR_GET_NO_NEW_PRIVS: u32 = 39;
    sandbox
        .sh(&format!(
            "python3 -c 'import ctypes; print(ctypes.CDLL(None).prctl({PR_GET_NO_NEW_PRIVS}, 0, 0, 0, 0))'"
        ))
        .await
}

/// Docker hands the container's environment to every program it starts there, and any of them
/// can be looked at from inside: none may still hold the key.
#[test]
fn the_key_cannot_be_read_inside() {
    Subject::run(subject, |subject| {
        Box::pin(async move {
            let sandbox = subject.sandbox().await;
            let key = sandbox.spec.agent_key.expose_hex();
            let visible = sandbox
                .sh("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'")
                .await;
            assert!(visible.contains("relay"), "the processes of the agent are looked at: {visible}");
            assert!(!visible.contains(&key), "{visible}");
        })
    });
}

/// Only the volumes and the two tmpfs can be written to.
#[test]
fn the_root_is_read_only() {
    Subject::run(subject, |subject| {
        Box::pin(async move {
            let sandbox = subject.sandbox().await;
            for path in ["/new", "/etc/new", "/usr/bin/new", "/etc/passwd", "/.emergent/agent"] {
                let outcome = sandbox.run(&format!("echo x >> {path}")).await;
                assert_ne!(outcome.exit.code, 0, "{path} can be written to");
                let reason = outcome.stderr.to_text();
                assert!(reason.contains("Read-only file system"), "{path}: {reason}");
            }
            assert_ne!(sandbox.run("mount -o remount,rw /").await.exit.code, 0);
            for path in ["/workspace/new", "/home/root/new", "/tmp/new", "/run/new"] {
                sandbox.sh(&format!("echo x > {path}")).await;
            }
        })
    });
}

/// No route, no interface but loopback, and the host's loopback is another one.
#[test]
fn there_is_no_network() {
    Subject::run(subject, |subject| {
        Box::pin(async move {
            let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
            let port = listener.local_addr().expect("bound").port();
            let sandbox = subject.sandbox().await;
            assert_eq!(sandbox.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await, "lo");
            assert_eq!(sandbox.sh("tail -n +2 /proc/net/route").await, "");
            for (address, port) in [("127.0.0.1", port), ("169.254.169.254", 80), ("10.0.0.1", 80)] {
                let connect = format!("timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port}'");
                let outcome = sandbox.run(&connect).await;
                // A refusal or "unreachable", at once; not a packet that went out and got lost.
                assert_eq!(outcome.exit.code, 1, "{address}:{port}: {outcome:?}");
            }
        })
    });
}
