//! A Docker daemon of a test's own, which cannot outlive it.
//!
//! ```text
//!  test ──── pipe ────► sh, PID 1 of a new PID namespace
//!                        └─ dockerd ─ containerd ─ shims ─ runsc sandboxes and gofers
//! ```
//!
//! All that the daemon starts lives in one PID namespace, and what it mounts in one mount
//! namespace. The first process there waits for the end of a pipe that only the test holds
//! open. However the test ends (also by SIGKILL), the pipe closes, that process exits, and the
//! kernel kills and unmounts the rest. What is then left is a folder and empty control groups:
//! they are removed when the daemon is dropped, and after a killed test by the next one.
//!
//! The network namespace is new as well, so that no rule, bridge or forwarding switch of the
//! host is touched.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::docker::Docker;
use crate::{programs, remains};

/// The first process of the namespaces. `/run`, `/opt` and `/etc/docker` are hidden because
/// daemons use fixed paths there (shim sockets, plugins, a key), of which the host would keep
/// copies; and because a containerd of the host's must not be found and used. `/usr`, which
/// sandboxes see, is read-only by the host's kernel for all of them: a `readonly` of Docker's
/// alone is upheld by the runtime under test, and a flaw in it would reach the host's programs.
const FIRST_PROCESS: &str = r#"
    set -e
    for folder in /run /opt /etc/docker; do
        if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
    done
    mount --bind /usr /usr
    mount -o remount,bind,ro /usr
    "$@" < /dev/null &
    read -r _ || exit 0
"#;

/// How long a daemon may take to listen; it takes half a second.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running daemon.
pub(crate) struct DockerDaemon {
    docker: Docker,
    process: Child,
    /// Held open: its end is the daemon's end. `None` once that has been brought about.
    lifeline: Option<ChildStdin>,
    folder: Option<TempDir>,
}

impl DockerDaemon {
    /// Starts a daemon that knows the runtime `runsc`.
    pub(crate) async fn start() -> Self {
        let program = |name| programs::find(name, "Debian's docker.io and iptables");
        let (docker, dockerd) = (program("docker"), program("dockerd"));
        let runsc = programs::find("runsc", "Debian's runsc (on bookworm from bookworm-backports)");
        remains::remove_those_of_dead_tests();

        let folder = remains::new_folder();
        let socket = folder.path().join("docker.sock");
        let config_file = folder.path().join("daemon.json");
        let group = remains::control_group(folder.path());
        fs::write(&config_file, config(folder.path(), &socket, &runsc, &group).to_string())
            .expect("a temporary folder can be written to");
        let log = File::create(folder.path().join("log")).expect("a temporary folder can be written to");
        let mut process = Command::new(programs::find("unshare", "Debian's util-linux"))
            .args(["--mount", "--propagation", "private", "--net", "--pid", "--fork", "--mount-proc", "--"])
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
        let docker = Docker::new(docker, &socket, folder.path().join("client"));
        let mut daemon = Self { docker, process, lifeline, folder: Some(folder) };
        daemon.wait_until_it_listens(&socket).await;
        daemon
    }

    /// A client of this daemon.
    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// A folder that is removed with the daemon.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().expect("present until dropped").path()
    }

    async fn wait_until_it_listens(&mut self, socket: &Path) {
        let deadline = Instant::now() + START_LIMIT;
        while !socket.exists() {
            let ended = self.process.try_wait().expect("it is our child");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "dockerd does not listen ({ended:?}; the tests need root). Its log:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The socket is there before anybody answers: this call waits in its queue.
        if let Err(error) = self.docker.call(["version"]).await {
            panic!("dockerd does not answer: {error}. Its log:\n{}", self.log());
        }
    }

    fn log(&self) -> String {
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

/// Everything in one folder, nothing of the host's network, and gVisor.
fn config(folder: &Path, socket: &Path, runsc: &Path, group: &str) -> serde_json::Value {
    let inside = |name: &str| -> PathBuf { folder.join(name) };
    serde_json::json!({
        "data-root": inside("data"),
        "exec-root": inside("exec"),
        "pidfile": inside("dockerd.pid"),
        "hosts": [format!("unix://{}", socket.display())],
        "cgroup-parent": format!("/{group}"),
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "log-driver": "none",
        "bridge": "none",
        "iptables": false,
        "ip6tables": false,
        "ip-forward": false,
        "ip-masq": false,
        "runtimes": {
            "runsc": {
                "path": runsc,
                // systrap runs anywhere. `--network=host` is the container's own network
                // namespace here, not the host's: without it runsc of 2024 refuses to start
                // on new kernels, because it takes that namespace for the root one.
                "runtimeArgs": ["--platform=systrap", "--network=host"],
            },
        },
    })
}
