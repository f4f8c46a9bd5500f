//! A real Docker daemon on the same host, that is started again.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use emergent_host_net::Repair;

use crate::world::{on_a_host_with, run};

/// The first process of namespaces in which the daemon and all it starts live: processes and
/// mounts of its own, the network of whoever starts it. Where a daemon uses fixed paths, the
/// machine's own are hidden. It ends when its input ends, and everything with it.
const FIRST_PROCESS: &str = r#"
    set -e
    for folder in /run /opt /etc/docker; do
        if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
    done
    "$@" < /dev/null &
    read -r word || exit 0
    kill -TERM $!
    wait $! || true
"#;

const START_LIMIT: Duration = Duration::from_secs(60);

/// A daemon on this thread's host.
pub(crate) struct Daemon {
    process: Child,
    lifeline: Option<ChildStdin>,
}

impl Daemon {
    pub(crate) fn start(folder: &Path) -> Self {
        let inside = |name: &str| folder.join(name).display().to_string();
        let (socket, log) = (inside("docker.sock"), inside("log"));
        // What an earlier one has left names processes by numbers that are somebody else's now.
        let _ = fs::remove_dir_all(inside("exec"));
        let _ = fs::remove_file(inside("dockerd.pid"));
        let _ = fs::remove_file(&socket);
        let log_file = File::create(&log).unwrap();
        let mut process = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc", "--"])
            .args(["sh", "-c", FIRST_PROCESS, "sh", "dockerd", "--experimental", "--ip6tables", "--ipv6"])
            .args(["--fixed-cidr-v6", "2001:db8:d0c::/64", "--storage-driver", "vfs"])
            .args(["--data-root", &inside("data"), "--exec-root", &inside("exec")])
            .args(["--pidfile", &inside("dockerd.pid"), "--host", &format!("unix://{socket}")])
            .stdin(Stdio::piped())
            .stdout(log_file.try_clone().unwrap())
            .stderr(log_file)
            .spawn()
            .unwrap();
        let lifeline = process.stdin.take();
        let mut daemon = Self { process, lifeline };
        let deadline = Instant::now() + START_LIMIT;
        // It listens when its rules are in place.
        while !fs::read_to_string(&log).unwrap_or_default().contains("API listen on") {
            let ended = daemon.process.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "dockerd does not listen ({ended:?}):\n{}",
                fs::read_to_string(&log).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon
    }

    /// As the machine's service manager does it.
    pub(crate) fn stop(mut self) {
        use std::io::Write;
        self.lifeline.take().unwrap().write_all(b"stop\n").unwrap();
        self.process.wait().unwrap();
    }
}

/// Kills whatever is left.
impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.process.wait();
    }
}

#[test]
fn egress_and_denials_survive_a_daemon_that_is_started_again() {
    on_a_host_with(
        |options| options.watch = false,
        |world| {
            let folder = tempfile::Builder::new().prefix("emergent-dockerd-").tempdir().unwrap();
            let (one, other) = world.two_sandboxes();
            one.reaches_what_it_may();
            let daemon = Daemon::start(folder.path());
            // In IPv6, this chain is known to later versions only.
            assert!(run("iptables", "-S").contains("-N DOCKER-USER"));
            for program in ["iptables", "ip6tables"] {
                assert!(run(program, "-S").contains("-P FORWARD DROP"), "{}", run(program, "-S"));
            }
            one.reaches_nothing();
            one.is_denied_the_rest(&other);
            assert!(world.network.recheck().unwrap().accepts);
            one.reaches_what_it_may();
            one.is_denied_the_rest(&other);

            // Once in good order, and once not. Nobody has to look after anything.
            daemon.stop();
            one.reaches_what_it_may();
            one.is_denied_the_rest(&other);
            let daemon = Daemon::start(folder.path());
            one.reaches_what_it_may();
            one.is_denied_the_rest(&other);
            drop(daemon);
            let daemon = Daemon::start(folder.path());
            one.reaches_what_it_may();
            one.is_denied_the_rest(&other);
            assert_eq!(world.network.recheck().unwrap(), Repair::default());
            daemon.stop();
        },
    );
}
