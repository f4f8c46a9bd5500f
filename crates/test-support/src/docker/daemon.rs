//! A Docker daemon of the tests' own, which cannot outlive them.
//!
//! ```text
//!  owner ──── pipe ────► sh, PID 1 of a new PID namespace
//!                         └─ dockerd ─ containerd ─ shims ─ runsc sandboxes and gofers
//! ```
//!
//! All that the daemon starts lives in one PID namespace, and what it mounts in one mount
//! namespace. The first process there waits for the end of a pipe that only the owner holds
//! open. However the owner ends (also by SIGKILL), the pipe closes, that process exits, and the
//! kernel kills and unmounts the rest. What is then left is a folder and empty control groups:
//! they are removed when the daemon is dropped, and after a killed owner by the next one.
//!
//! The network namespace is new as well, or one that the test has made, so that no rule, bridge or
//! forwarding switch of the host is touched. One folder is shared: what is mounted there outside, the daemon sees.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use super::{programs, remains};

/// The first process of the namespaces. `/run`, `/opt` and `/etc/docker` are hidden because
/// daemons use fixed paths there (shim sockets, plugins, a key), of which the host would keep
/// copies; and because a containerd of the host's must not be found and used. `/usr` is read-only
/// by the host's kernel for all of them, should a runtime under test let something reach it.
const FIRST_PROCESS: &str = r#"
    set -e
    for folder in /run /opt /etc/docker; do
        if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
    done
    mount --bind /usr /usr
    mount -o remount,bind,ro /usr
    ip link set lo up
    "$@" < /dev/null &
    read -r _ || exit 0
"#;

/// How long a daemon may take to listen; it takes half a second.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running daemon.
pub struct DockerDaemon {
    process: Child,
    /// Held open: its end is the daemon's end. `None` once that has been brought about.
    lifeline: Option<ChildStdin>,
    folder: Option<TempDir>,
}

impl DockerDaemon {
    /// Starts a daemon that knows the runtime `runsc`. Blocks until it answers.
    pub fn start() -> Self {
        Self::start_with(&["--net"], true)
    }

    /// The same in the network namespace of the calling thread, which must be one of the test's own.
    pub fn start_in_this_network() -> Self {
        Self::start_with(&[], true)
    }

    /// Starts a daemon that knows Docker's own runtime alone.
    pub fn start_without_runsc() -> Self {
        Self::start_with(&["--net"], false)
    }

    fn start_with(namespaces: &[&str], with_runsc: bool) -> Self {
        let dockerd = programs::find("dockerd", "Debian's docker.io and iptables");
        let runsc = programs::find("runsc", "Debian's runsc (on bookworm from bookworm-backports)");
        remains::remove_those_of_dead_tests();

        let folder = remains::new_folder();
        let shared = folder.path().join("shared");
        fs::create_dir(&shared)
            .and_then(|()| mount_bind(&shared, &shared).map_err(io::Error::from))
            .and_then(|()| mount_change(&shared, MountPropagationFlags::SHARED).map_err(io::Error::from))
            .expect("a folder can be shared; the tests need root");
        let config_file = folder.path().join("daemon.json");
        fs::write(&config_file, config(folder.path(), with_runsc.then_some(&*runsc)).to_string())
            .expect("a temporary folder can be written to");
        let log = File::create(folder.path().join("log")).expect("a temporary folder can be written to");
        let mut process = Command::new(programs::find("unshare", "Debian's util-linux"))
            .args(["--mount", "--propagation", "slave"])
            .args(namespaces)
            .args(["--pid", "--fork", "--mount-proc", "--"])
            .args(["sh", "-c", FIRST_PROCESS, "sh"])
            .arg(dockerd)
            .arg("--config-file")
            .arg(&config_file)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log)
            .spawn()
            .expect("unshare can be started");
        let lifeline = process.stdin.take();
        let mut daemon = Self { process, lifeline, folder: Some(folder) };
        daemon.wait_until_it_listens();
        daemon
    }

    /// Where it listens, as `DOCKER_HOST` has it.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A folder of which the daemon sees what is mounted there; removed with it.
    pub fn shared_folder(&self) -> PathBuf {
        self.folder().join("shared")
    }

    /// Listens on the loopback interface of the daemon's own network namespace.
    pub(super) fn listen_inside(&self) -> TcpListener {
        // The process that made the namespaces is in this one itself.
        let namespace = format!("/proc/{}/ns/net", self.process.id());
        let namespace = File::open(&namespace).expect("the daemon has a network namespace");
        // A thread of its own: it does not come back, and the socket stays where it was made.
        let listening = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("the tests run as root");
            TcpListener::bind("127.0.0.1:0").expect("loopback is up")
        });
        listening.join().expect("it does not panic")
    }

    fn socket(&self) -> PathBuf {
        self.folder().join("docker.sock")
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().expect("present until dropped").path()
    }

    fn wait_until_it_listens(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            let ended = self.process.try_wait().expect("it is our child");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "dockerd does not listen ({ended:?}; the tests need root). Its log:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_else(|error| error.to_string())
    }
}

impl Drop for DockerDaemon {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // Returns when the last process of the namespace is gone.
        let _ = self.process.wait();
        if let Some(folder) = self.folder.take() {
            remains::remove(folder.keep());
        }
    }
}

/// Everything in one folder, and gVisor.
fn config(folder: &Path, runsc: Option<&Path>) -> serde_json::Value {
    let inside = |name: &str| -> PathBuf { folder.join(name) };
    let mut config = serde_json::json!({
        "data-root": inside("data"),
        "exec-root": inside("exec"),
        "pidfile": inside("dockerd.pid"),
        "hosts": [format!("unix://{}", inside("docker.sock").display())],
        "cgroup-parent": format!("/{}", remains::control_group(folder)),
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "log-driver": "none",
        "bridge": "none",
    });
    if let Some(runsc) = runsc {
        // systrap runs anywhere. `--network=host` is the container's own network namespace here, not
        // the host's: without it runsc of 2024 refuses to start on new kernels, because it takes that
        // namespace for the root one.
        let arguments = ["--platform=systrap", "--network=host"];
        config["runtimes"] = serde_json::json!({"runsc": {"path": runsc, "runtimeArgs": arguments}});
    }
    config
}
