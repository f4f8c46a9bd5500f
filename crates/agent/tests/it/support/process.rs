//! The real binary, as init with its agent.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use emergent_protocol::KEY_VARIABLE;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;

use super::client::{Client, KEY, connect};

/// `emergent-agent init`, not as PID 1 unless a namespace is asked for. Ended with everything
/// below it when dropped.
pub(crate) struct Binary {
    init: Child,
    pub(crate) root: tempfile::TempDir,
}

/// How it is started.
#[derive(Default)]
pub(crate) struct BinaryOptions<'a> {
    /// Given to init.
    pub(crate) flags: &'a [&'a str],
    /// Run as root of user, mount and PID namespaces of its own, after this shell text.
    pub(crate) in_namespace: Option<&'a str>,
    /// Started as a member of this cgroup: the file to write the process id to.
    pub(crate) cgroup: Option<PathBuf>,
    /// What it finds at `/var/tmp` is [`Binary::var_tmp`], so that output files go with it. Needs root.
    pub(crate) own_var_tmp: bool,
}

impl Binary {
    pub(crate) const PATH: &'static str = env!("CARGO_BIN_EXE_emergent-agent");

    pub(crate) async fn start(options: BinaryOptions<'_>) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let workspace = root.path().join("workspace");
        fs::create_dir(&workspace).expect("writable");
        let socket = root.path().join("run/agent.sock");
        let var_tmp = root.path().join("var-tmp");
        fs::create_dir(&var_tmp).expect("writable");
        let mut command = match options.in_namespace {
            None if options.own_var_tmp => {
                let mut command = Command::new("unshare");
                let script = "mount --bind \"$0\" /var/tmp && exec \"$@\"";
                command.args(["--mount", "sh", "-c", script]).arg(&var_tmp).arg(Self::PATH);
                command
            }
            None => Command::new(Self::PATH),
            Some(preparation) => {
                let mut command = Command::new("unshare");
                command.args([
                    "--user",
                    "--map-root-user",
                    "--mount",
                    "--net",
                    "--pid",
                    "--fork",
                    "--kill-child",
                ]);
                // The binary is found before anything is mounted over its folder.
                let script = format!("mount -t proc proc /proc && {preparation} exec \"$0\" \"$@\"");
                command.args(["sh", "-c", &script, Self::PATH]).current_dir(root.path());
                command
            }
        };
        command
            .args(["init", "--listen"])
            .arg(&socket)
            .arg("--workspace")
            .arg(&workspace)
            .args(options.flags);
        command.env(KEY_VARIABLE, KEY.map(|byte| format!("{byte:02x}")).concat());
        command.env("SECRET_OF_THE_HOST", "not for commands").stdin(Stdio::null());
        if let Some(cgroup) = options.cgroup {
            #[expect(unsafe_code, reason = "joins a cgroup between fork and exec")]
            // SAFETY: only opens and writes a file.
            unsafe {
                command.pre_exec(move || fs::write(&cgroup, "0"));
            }
        }
        let binary = Self { init: command.spawn().expect("starts"), root };
        binary.wait_for_socket().await;
        binary
    }

    async fn wait_for_socket(&self) {
        let path = self.socket();
        super::eventually("init listens", || async { path.exists() }).await;
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.path().join("run/agent.sock")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    /// See [`BinaryOptions::own_var_tmp`].
    pub(crate) fn var_tmp(&self) -> PathBuf {
        self.root.path().join("var-tmp")
    }

    pub(crate) async fn client(&self) -> Client {
        let mut client = connect(self.stream().await).await;
        client.greet().await;
        client
    }

    pub(crate) async fn stream(&self) -> UnixStream {
        UnixStream::connect(self.socket()).await.expect("init listens")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.init.id()
    }

    /// The agent that runs now: the child of init that is not an orphan. The supervisors of an
    /// agent that died are copies of it under another name.
    pub(crate) fn agent_pid(&self) -> Option<u32> {
        let init = self.pid().to_string();
        let entries = fs::read_dir("/proc").expect("readable").flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit(')').next().unwrap_or_default().split_whitespace().nth(1);
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_supervisor = stat.contains("(supervisor");
            !is_supervisor
                && parent == Some(init.as_str())
                && arguments.split(|byte| *byte == 0).nth(1) == Some(b"serve")
        })
    }

    /// Asks init to end everything; how long it may take.
    pub(crate) async fn terminate(&mut self) -> std::process::ExitStatus {
        kill_process(Pid::from_child(&self.init), Signal::TERM).expect("is ours");
        self.exit_status().await
    }

    pub(crate) async fn exit_status(&mut self) -> std::process::ExitStatus {
        for _ in 0..1500 {
            if let Some(status) = self.init.try_wait().expect("is ours") {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("init does not end");
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        if let Ok(None) = self.init.try_wait() {
            let _ = kill_process(Pid::from_child(&self.init), Signal::TERM);
            for _ in 0..800 {
                if !matches!(self.init.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = self.init.kill();
            let _ = self.init.wait();
        }
    }
}

/// Resident memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).expect("alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}
