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
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use super::{programs, remains, remote};

/// The first process of the namespaces. `/run`, `/opt` and `/etc/docker` are hidden because
/// daemons use fixed paths there (shim sockets, plugins, a key), of which the host would keep
/// copies; and because a containerd of the host's must not be found and used. `/usr` is read-only
/// by the host's kernel for all of them, should a runtime under test let something reach it.
///
/// What it reads is a signal for the daemon, or the word to start another one where none runs (one that has
/// ended is a zombie, and those have no program). On a busy machine a daemon gives up on its containerd; an
/// administrator's service manager starts it once more, and so does whoever waits here.
const FIRST_PROCESS: &str = r#"
    set -e
    for folder in /run /opt /etc/docker; do
        if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
    done
    mount --bind /usr /usr
    mount -o remount,bind,ro /usr
    ip link set lo up
    "$@" < /dev/null &
    while read -r word; do
        case "$word" in
            start) if ! readlink "/proc/$!/exe" > /dev/null; then "$@" < /dev/null & fi ;;
            *) kill -s "$word" "$!"; wait "$!" || true; echo "$ENDED" ;;
        esac
    done
    exit 0
"#;

/// What stands in the log when a daemon has ended that was sent a signal.
const ENDED: &str = "the daemon has ended";

/// Where its certificates are, and those for a client.
const CERTIFICATES: &str = "certificates";

/// How long a daemon may take to answer; it takes half a second.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked whether one that does not answer has to be started once more.
const START_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How long a daemon may take to end: it gives its containers ten seconds each, all at once.
const END_LIMIT: Duration = Duration::from_secs(60);

/// What a daemon is started with.
#[derive(Debug, Clone, Copy)]
pub struct DaemonOptions {
    /// Whether it has a network namespace of its own, and not that of the calling thread, which must then be
    /// one of the test's own.
    pub own_network: bool,
    /// Whether it knows the runtime `runsc`.
    pub runsc: bool,
    /// Whether its containers outlive it.
    pub live_restore: bool,
    /// Whether it also listens on loopback, for whoever shows a certificate.
    pub tls: bool,
}

impl Default for DaemonOptions {
    fn default() -> Self {
        Self { own_network: true, runsc: true, live_restore: false, tls: false }
    }
}

/// A running daemon.
pub struct DockerDaemon {
    process: Mutex<Child>,
    /// Held open: its end is the daemon's end. `None` once that has been brought about.
    lifeline: Option<ChildStdin>,
    folder: Option<TempDir>,
}

impl DockerDaemon {
    /// Starts a daemon. Blocks until it answers.
    pub fn start(options: DaemonOptions) -> Self {
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
        fs::write(&config_file, config(folder.path(), options, &runsc).to_string())
            .expect("a temporary folder can be written to");
        if options.tls {
            remote::make_certificates(&folder.path().join(CERTIFICATES));
        }
        let log = File::create(folder.path().join("log")).expect("a temporary folder can be written to");
        let mut process = Command::new(programs::find("unshare", "Debian's util-linux"))
            .args(["--mount", "--propagation", "slave"])
            .args(options.own_network.then_some("--net"))
            .args(["--pid", "--fork", "--mount-proc", "--"])
            .args(["sh", "-c", FIRST_PROCESS, "sh"])
            .arg(dockerd)
            .arg("--config-file")
            .arg(&config_file)
            .env("ENDED", ENDED)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log)
            .spawn()
            .expect("unshare can be started");
        let lifeline = process.stdin.take();
        let daemon = Self { process: Mutex::new(process), lifeline, folder: Some(folder) };
        daemon.wait_until_it_answers();
        daemon
    }

    /// Sends the daemon alone a signal (`KILL`, `TERM`) and waits for its end. What it has started goes on, or
    /// does not, as the daemon has it.
    pub fn end_by(&self, signal: &str) {
        let ended = || self.log().matches(ENDED).count();
        let before = ended();
        self.tell(signal);
        let deadline = Instant::now() + END_LIMIT;
        while ended() == before {
            assert!(Instant::now() < deadline, "dockerd does not end. Its log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts another in the place of one that has ended, and waits until it answers.
    pub fn start_again(&self) {
        self.wait_until_it_answers();
    }

    fn tell(&self, word: &str) {
        let mut lifeline = self.lifeline.as_ref().expect("held until dropped");
        writeln!(lifeline, "{word}").expect("the first process reads it");
    }

    /// Where it listens, as `DOCKER_HOST` has it.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Where it listens for whoever shows a certificate, and where there is one. Only of one that was started so,
    /// and only in its network namespace.
    pub fn tls_address(&self) -> (String, PathBuf) {
        (format!("tcp://{}", remote::TLS_ADDRESS), self.folder().join(CERTIFICATES))
    }

    /// A folder of which the daemon sees what is mounted there; removed with it.
    pub fn shared_folder(&self) -> PathBuf {
        self.folder().join("shared")
    }

    /// Listens on the loopback interface of the daemon's own network namespace.
    pub(super) fn listen_inside(&self) -> TcpListener {
        // The process that made the namespaces is in this one itself.
        let namespace = format!("/proc/{}/ns/net", self.process.lock().expect("not poisoned").id());
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

    /// It listens before it has found its containers, and may still give up after that.
    fn wait_until_it_answers(&self) {
        let deadline = Instant::now() + START_LIMIT;
        let mut told = None::<Instant>;
        while !self.answers() {
            let ended = self.process.lock().expect("not poisoned").try_wait().expect("it is our child");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "dockerd does not answer ({ended:?}; the tests need root). Its log:\n{}",
                self.log()
            );
            if told.is_none_or(|told| told.elapsed() > START_AGAIN_AFTER) {
                self.tell("start");
                told = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn answers(&self) -> bool {
        let ping = || -> io::Result<String> {
            let mut stream = UnixStream::connect(self.socket())?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ping().is_ok_and(|answer| answer.lines().next().is_some_and(|status| status.contains(" 200 ")))
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
        if let Ok(process) = self.process.get_mut() {
            let _ = process.wait();
        }
        if let Some(folder) = self.folder.take() {
            remains::remove(folder.keep());
        }
    }
}

/// Everything in one folder, and gVisor.
fn config(folder: &Path, options: DaemonOptions, runsc: &Path) -> serde_json::Value {
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
        "live-restore": options.live_restore,
    });
    if options.tls {
        let certificates = inside(CERTIFICATES);
        config["hosts"] = serde_json::json!([config["hosts"][0], format!("tcp://{}", remote::TLS_ADDRESS)]);
        config["tlsverify"] = serde_json::json!(true);
        for (name, file) in
            [("tlscacert", "ca.pem"), ("tlscert", "server-cert.pem"), ("tlskey", "server-key.pem")]
        {
            config[name] = serde_json::json!(certificates.join(file));
        }
    }
    if options.runsc {
        // systrap runs anywhere. `--network=host` is the container's own network namespace here, not
        // the host's: without it runsc of 2024 refuses to start on new kernels, because it takes that
        // namespace for the root one.
        let arguments = ["--platform=systrap", "--network=host"];
        config["runtimes"] = serde_json::json!({"runsc": {"path": runsc, "runtimeArgs": arguments}});
    }
    config
}
